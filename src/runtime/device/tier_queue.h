// TierQueue: carries out the core's requests on a device: copies between frames and pinned host memory, which is the
// host tier, and by way of pinned staging buffers to and from flash.
//
// A copy between device and host is complete, for the core, as soon as it is in its stream: whoever uses the frame or
// the place in host memory next waits, in a stream, for the mark behind the copy. What goes to flash is complete when
// it is there, and carries a digest; in host memory there is none. A place in host memory to which a block leaves for
// the second time is noted, where the device can: from the third time on no more is copied than has changed.
//
// Owned by a GpuRuntime. start(), ready(), finish() and pop() under its lock; the mover alone talks to flash, without
// it, about the requests that ready() gave it. A request's staging buffer is that of its token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "port/flash_queue.h"
#include "port/gpu_device.h"
#include "runtime/device/frame_map.h"
#include "runtime/device/timelines.h"

namespace ebb {

class TierQueue {
 public:
  // A request for the mover: a buffer to be hashed and written, or read and verified.
  struct Job {
    FlashRequest request;
    std::span<std::byte> staging;
    std::uint64_t offset = 0;  // on flash
  };

  TierQueue(GpuDevice& device, FrameMap& frames, Timelines& timelines, std::size_t block_bytes,
            std::uint32_t host_extents, std::uint32_t depth);
  static std::size_t host_bytes(std::size_t block_bytes, std::uint32_t host_extents, std::uint32_t depth) {
    return block_bytes * (std::size_t{host_extents} + depth);
  }

  void start(const FlashRequest& request);
  // Moves jobs whose staging buffer the device is done with to `jobs`.
  void ready(std::vector<Job>& jobs);
  // A job has come to this.
  void finish(const Job& job, const FlashCompletion& completion);
  bool pop(FlashCompletion& completion);
  // Jobs that wait for the device.
  bool waits() const { return !waiting_.empty(); }
  // Jobs that ready() gave and finish() has not had back.
  std::uint32_t on_flash() const { return on_flash_; }

 private:
  std::span<std::byte> staging(std::uint32_t token);
  std::span<std::byte> place(ExtentIndex extent);
  Status copy_out(std::span<std::byte> to, Fences& place, FrameIndex frame);
  Status copy_in(FrameIndex frame, std::span<std::byte> from, Fences& place);
  Status leave(const FlashRequest& request);
  Fences before(FrameIndex frame, const Fences& place) const;
  template <typename Work>
  Status run(std::uint32_t line, const Fences& before, FrameIndex frame, Fences& place, Work work);

  GpuDevice& device_;
  FrameMap& frames_;
  Timelines& timelines_;
  std::size_t block_bytes_;
  std::uint32_t host_extents_;
  std::vector<Fences> host_;     // by host extent: copies from and to it
  std::vector<bool> noted_;      // by host extent: the device knows what is there
  std::vector<Fences> staging_;  // by token
  std::vector<FlashRequest> waiting_;
  std::vector<FlashCompletion> completed_;
  std::uint32_t on_flash_ = 0;
};

}  // namespace ebb
