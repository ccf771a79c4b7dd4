// A launch of a KernelStream: announced for as long as it is being started.
//
// On the stack of the thread that starts it.
#pragma once

#include <cstdint>
#include <span>

#include "drivers/cuda/kernels/kernel_stream.h"

namespace ebb {

class KernelStream::Launch {
 public:
  Launch(DeviceRuntime& runtime, cuda::Stream stream, std::uint64_t op, std::span<const Access> accesses)
      : runtime_(runtime), ticket_(runtime.announce_on(stream, op, accesses)) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() { runtime_.retire(ticket_); }

 private:
  DeviceRuntime& runtime_;
  const std::uint64_t ticket_;
};

}  // namespace ebb
