// CheckedFlash: a FlashQueue over a device that only moves bytes. It computes what proves them: before a write, the
// digest of the frame, and nothing is written if flash has the same already; after a read, the digest of what came,
// and what differs is corrupt. A block of zeros, such as the fresh state of an optimizer, is not written either: its
// digest says what it holds, and to read it is to fill the frame.
//
// The thread that submits and polls does the hashing: some 0.1 ms a block of 2 MiB, outside the runtime's lock.
#pragma once

#include <memory>
#include <vector>

#include "port/backing_memory.h"
#include "port/flash_queue.h"
#include "port/raw_flash.h"

namespace ebb {

class CheckedFlash final : public FlashQueue {
 public:
  CheckedFlash(std::unique_ptr<RawFlash> device, BackingMemory& memory, std::size_t block_bytes);

  std::uint32_t depth() const override { return device_->depth(); }
  void submit(std::span<const FlashRequest> requests) override;
  std::size_t poll(std::span<FlashCompletion> completions) override;
  void wait(std::chrono::nanoseconds timeout) override;
  void wake() override { device_->wake(); }
  Status reserve(std::uint32_t count) override { return device_->reserve(count * std::uint64_t{block_bytes_}); }

  // In a forked child, which has not inherited the device's queues: gives it up without closing it.
  void abandon() { static_cast<void>(device_.release()); }
  // A read in a forked child, into `buffer`; kCorrupt, kIoError.
  Status read_now(const FlashRequest& request, std::span<std::byte> buffer);

 private:
  RawRequest raw(const FlashRequest& request, std::span<std::byte> bytes) const;
  std::unique_ptr<RawFlash> device_;
  BackingMemory& memory_;
  std::size_t block_bytes_;
  Digest zeros_;                          // of a block of zeros
  std::vector<FlashRequest> requests_;    // by token
  std::vector<FlashCompletion> unmoved_;  // of requests for which no byte had to move, to be polled
  std::vector<RawCompletion> arrived_;
};

}  // namespace ebb
