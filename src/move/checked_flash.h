// CheckedFlash: a FlashQueue over a device that only moves bytes. It computes what proves them: before a write, the
// digest of the frame, and nothing is written if flash has the same already; after a read, the digest of what came,
// and what differs is corrupt. A block of zeros, such as the fresh state of an optimizer, is not written either: its
// digest says what it holds, and to read it is to fill the frame.
//
// What comes from a file of the program's again has its digest taken only where the file may have changed, and one
// time in 16 all the same, for the sake of disks that err: what is other than it was and whose file has not changed is
// refused. What the program may not write leaves without a digest.
//
// Asked to, it does not take an equal digest for proof that a block is unchanged, but reads its copy, by way of a
// bounded number of buffers, and compares the bytes. A copy that differs, or cannot be read, is written anew.
//
// The thread that submits and polls does the hashing: some 0.13 ms a block of 2 MiB, outside the runtime's lock.
#pragma once

#include <memory>
#include <vector>

#include "base/bounded_queue.h"
#include "port/backing_memory.h"
#include "port/block_buffers.h"
#include "port/flash_queue.h"
#include "port/raw_flash.h"
#include "port/source_files.h"

namespace ebb {

class CheckedFlash final : public FlashQueue {
 public:
  enum class Proof { kDigest, kContent };  // that a block is unchanged

  // `files`: those that requests name; null: any may have changed. Outlives this.
  CheckedFlash(std::unique_ptr<RawFlash> device, BackingMemory& memory, std::size_t block_bytes,
               const SourceFiles* files = nullptr, Proof proof = Proof::kDigest);

  // Memory that comparing may take.
  static std::uint64_t buffer_bytes(std::size_t block_bytes, std::uint32_t depth) {
    return std::uint64_t{BlockBuffers::count_for(block_bytes, depth)} * block_bytes;
  }

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
  bool is_as_before(const FlashRequest& request);
  bool has_changed(const FlashRequest& request) const;
  void submit_write(FlashRequest& request, std::span<std::byte> bytes);
  void write(FlashRequest& request, std::span<std::byte> bytes, const Digest& now);
  std::size_t take_unmoved(std::span<FlashCompletion> completions);
  void compare_waiting();
  void settle_comparison(const RawCompletion& arrived);
  FlashCompletion settle_arrival(const RawCompletion& arrived);

  std::unique_ptr<RawFlash> device_;
  BackingMemory& memory_;
  std::size_t block_bytes_;
  const SourceFiles* files_;
  std::uint32_t trusted_ = 0;             // readings of files, in turn
  Digest zeros_;                          // of a block of zeros
  std::vector<FlashRequest> requests_;    // by token
  std::vector<FlashCompletion> unmoved_;  // of requests for which no byte had to move, to be polled
  std::vector<RawCompletion> arrived_;
  Proof proof_;
  BlockBuffers buffers_;                            // for copies to compare with
  std::vector<std::span<std::byte>> compared_;      // by token: the copy that is being read; empty: none
  BoundedQueue<std::uint32_t> waiting_comparison_;  // tokens, for a buffer
};

}  // namespace ebb
