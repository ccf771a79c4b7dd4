// Where the tests of arrays on a GPU run: on the software driver, or on a GPU where there is one.
//
// Used by one thread.
#pragma once

#include <memory>

#include "ebb/array.h"
#include "gpu_program.h"
#include "watched_runtime.h"

namespace ebb {

// New arrays lie on the software device: `frames` blocks of its memory, `host` of pinned memory, the rest on flash.
inline std::shared_ptr<WatchedRuntime> use_soft_gpu(std::uint32_t frames, std::uint32_t host, bool strict = false) {
  soft::reset();
  Options options = gpu_options(frames, host, "256MiB");
  options.device_strict = strict;
  auto runtime = std::make_shared<WatchedRuntime>(DeviceRuntime::open(options));
  use_runtime(runtime);
  return runtime;
}

}  // namespace ebb
