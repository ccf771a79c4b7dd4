// What a KernelStream works with: a compiled kernel, and a launch that is announced for as long as it is being started.
#pragma once

#include <cstdint>
#include <span>

#include "drivers/cuda/cuda_current.h"
#include "drivers/cuda/kernels/kernel_stream.h"

namespace ebb {

// Shared by the stream's cache and its users. Unloaded when nobody has it; its context is retained by the stream, which
// a user keeps longer.
class KernelStream::Kernel final : public CudaKernel {
 public:
  Kernel(const cuda::Api& api, cuda::Context context) : api_(api), context_(context) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() override {
    if (module == nullptr) return;
    const cuda::Current current(api_, context_);
    static_cast<void>(api_.module_unload(module));
  }
  // The driver's from now on.
  void leave() { module = nullptr; }
  std::uint64_t identity() const { return reinterpret_cast<std::uintptr_t>(this) | 1; }

  cuda::Module module = nullptr;
  cuda::Function function = nullptr;

 private:
  const cuda::Api api_;  // by value: entry points, which outlive everything
  const cuda::Context context_;
};

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
