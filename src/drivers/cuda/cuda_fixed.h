// CudaFixedDevice: a GPU without the virtual memory API, as two pieces of memory that stay where they are: one of its
// own (cuMemAlloc), and one of pinned host memory that is mapped into its addresses, which kernels reach over the bus.
//
// Owned by a runtime, which calls it from one thread at a time. A process that forks must not use it in the child.
#pragma once

#include <memory>
#include <string>

#include "drivers/cuda/cuda_streams.h"
#include "port/fixed_device.h"

namespace ebb {

class CudaFixedDevice final : public CudaStreams<FixedDevice> {
 public:
  struct Config {
    std::string library = "libcuda.so.1";
    int ordinal = 0;
    std::size_t memory_bytes = 0;
    std::size_t host_bytes = 0;  // 0: none
  };
  // kInvalid, kUnsupported, kNoMemory, with a sentence in `reason` that says what to do about it.
  static Status make(const Config& config, std::unique_ptr<CudaFixedDevice>& device, std::string& reason);
  ~CudaFixedDevice() override;

  std::span<std::byte> memory() override { return {reinterpret_cast<std::byte*>(memory_), config_.memory_bytes}; }
  std::span<std::byte> host() override { return {reinterpret_cast<std::byte*>(host_), config_.host_bytes}; }
  std::string description() const override;

 private:
  CudaFixedDevice() = default;
  Status allocate(std::string& reason);

  Config config_;
  cuda::Pointer memory_ = 0;
  void* pinned_ = nullptr;
  cuda::Pointer host_ = 0;  // of pinned_, for the GPU
};

}  // namespace ebb
