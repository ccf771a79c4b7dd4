// CudaDevice: a GPU behind CUDA's driver API. Frames are physical allocations of the virtual memory API, made once;
// each is mapped for ever at its home, where copies find it, and besides under the block of the space that it serves.
// (Mappings of one allocation agree with each other from one operation of a stream to the next, not within a kernel:
// CUDA C++ Programming Guide, Virtual Memory Management, virtual aliasing support.)
//
// Owned by a runtime, which calls it as a GpuDevice may be called. Every call makes the device's primary context
// current for its duration, and puts back what was current before: PyTorch uses the same context. A process that forks
// must not use it in the child. Invariants: a frame that exists is mapped at its home; blocks_[b] is set exactly while
// block b is mapped; of a lost GPU nothing is asked any more: work that still runs would be disturbed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_gpu.h"
#include "drivers/cuda/kernels/change_kernels.h"
#include "port/gpu_device.h"

namespace ebb {

class CudaDevice final : public GpuDevice {
 public:
  struct Config {
    std::string library = "libcuda.so.1";
    int ordinal = 0;
    std::size_t block_bytes = 0;
    std::uint32_t blocks = 0;
    std::uint32_t frames = 0;
    std::size_t host_bytes = 0;
    std::uint32_t noted = 0;    // blocks of host(), its first, whose content is noted where the GPU can; 0: none
    std::string nvrtc_library;  // which that takes; empty: the one that the loader finds
  };
  // kInvalid, kUnsupported, kNoMemory, kIoError, with a sentence in `reason` that says what to do about it.
  static Status make(const Config& config, std::unique_ptr<CudaDevice>& device, std::string& reason);
  ~CudaDevice() override;

  std::byte* base() const override { return reinterpret_cast<std::byte*>(space_); }
  std::size_t bytes() const override { return config_.block_bytes * config_.blocks; }
  std::span<std::byte> host() override { return {static_cast<std::byte*>(host_), config_.host_bytes}; }
  Status create(FrameIndex frame) override;
  void destroy(FrameIndex frame) override;
  Status map(FrameIndex frame, BlockIndex block) override;
  Status permit(BlockRange blocks) override;
  Status unmap(BlockRange blocks) override;
  Stream copy_stream(Copy direction) const override {
    return direction == Copy::kIn ? in_ : direction == Copy::kOut ? out_ : note_;
  }
  bool tells_changes() const override { return changes_ != nullptr; }
  Status note(FrameIndex frame, std::uint32_t place) override;
  Status copy_out_changed(FrameIndex frame, std::uint32_t place) override;
  Status copy_in(FrameIndex frame, std::span<const std::byte> from) override;
  Status copy_out(std::span<std::byte> to, FrameIndex frame) override;
  Status make_event(Event& event) override;
  Status make_timer(Event& event) override;
  void destroy_event(Event event) override;
  Status record(Event event, Stream stream) override;
  Status wait(Stream stream, Event event) override;
  Status query(Event event) override;
  Status elapsed(Event from, Event to, std::uint64_t& ns) override;
  std::string description() const override;

 private:
  CudaDevice() = default;
  void release();
  Status check_memory(std::string& reason);
  Status allocate_host(std::string& reason);
  Status make_streams(std::string& reason);
  cuda::Pointer home(FrameIndex frame) const { return homes_ + frame.value() * config_.block_bytes; }
  cuda::Pointer address(BlockIndex block) const { return space_ + block.value() * config_.block_bytes; }
  Status permit(cuda::Pointer address, std::size_t bytes);
  Status make_event(Event& event, unsigned flags);
  Status status_of(cuda::Result error, const char* what);
  void lose(const char* what, cuda::Result error);

  Config config_;
  cuda::Gpu gpu_;
  cuda::AllocationProperties properties_{};
  cuda::Pointer space_ = 0;
  cuda::Pointer homes_ = 0;
  void* host_ = nullptr;
  cuda::Stream in_ = nullptr;
  cuda::Stream out_ = nullptr;
  cuda::Stream note_ = nullptr;
  std::unique_ptr<cuda::ChangeKernels> changes_;  // null: nothing tells what has changed,
  std::string why_not_;                           // because of this, or because nobody wants to know
  std::vector<cuda::Handle> frames_;              // 0: none
  std::vector<char> blocks_;                      // no bits: two threads may set neighbours
};

}  // namespace ebb
