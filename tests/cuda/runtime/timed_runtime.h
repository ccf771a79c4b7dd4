// TimedRuntime: a GpuRuntime over a TimedDevice, put together as DeviceRuntime::open() does it over CUDA: for
// gpu_replay and for tests that count what a runtime asks of its device.
//
// Owned by who opens it. Invariant: nothing may go to flash, because a TimedDevice's host memory cannot be read; host
// memory has to hold what GPU memory does not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"
#include "drivers/linux/flash/flash_file.h"
#include "rivals/policies.h"
#include "runtime/device/block_size.h"
#include "runtime/device/gpu_runtime.h"
#include "runtime/open_flash.h"
#include "timed_device.h"

namespace ebb {

struct TimedRuntime {
  TimedDevice* device = nullptr;  // the runtime's
  std::unique_ptr<GpuRuntime> runtime;
};

// `options` say policy, block size, memory of both tiers, and the flash driver.
inline TimedRuntime open_timed_runtime(const Options& options, const TimedDevice::Costs& costs) {
  GpuRuntime::Parts parts;
  parts.policy = make_any_policy(options.policy);
  EBB_CHECK(parts.policy != nullptr);
  Core::Config& config = parts.config;
  config.block_bytes = options.block_bytes;
  config.budget_bytes = options.device_memory / options.block_bytes * options.block_bytes;
  config.tables_in_budget = false;
  config.faults = false;
  config.host_in_ns = static_cast<double>(options.block_bytes) / costs.bytes_a_ns;
  config.flash_in_ns = static_cast<double>(options.block_bytes) / kFlashBytesANs;
  config.queue_depth = gpu_queue_depth(config.block_bytes, config.frames(), options.memory);
  config.host_extents = static_cast<std::uint32_t>(options.memory / options.block_bytes) - config.queue_depth;
  config.blocks = static_cast<std::uint32_t>((config.frames() + config.host_extents) * kSpaceFactor);
  auto device = std::make_unique<TimedDevice>(
      config.block_bytes, config.blocks,
      TierQueue::host_bytes(config.block_bytes, config.host_extents, config.queue_depth), costs);
  config.host_notes = device->tells_changes();
  TimedRuntime opened{device.get(), nullptr};
  parts.device = std::move(device);
  EBB_CHECK(Timelines::make(*parts.device, parts.timelines) == Status::kOk);
  parts.flash_directory = "/tmp";
  parts.flash = open_flash(options, FlashFile::open(parts.flash_directory),
                           {config.queue_depth, config.block_bytes, config.extents}, parts.flash_description);
  opened.runtime = std::make_unique<GpuRuntime>(options, std::move(parts));
  return opened;
}

}  // namespace ebb
