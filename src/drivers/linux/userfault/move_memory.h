// MoveMemory: frames are private anonymous memory, moved page table entry by page table entry between their home and
// the space with UFFDIO_MOVE: no copy, 2 to 4 microseconds for a huge page, one mapping whatever moves.
//
// Both ranges are watched by one userfaultfd: touches of absent blocks arrive in next(). Homes are touched only where
// they are, and by who populates all memory of the process (mlockall). Frames get their memory in a scratch mapping
// that is not watched, because populating a watched one would fault to ourselves; one at a time.
//
// What the program does to the space (mlock, madvise, mprotect, munmap) and the kernel to its pages is never an error
// here: page_moves.h, docs/design/0016.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/zeroed_array.h"
#include "drivers/linux/adopt/adopted_memory.h"
#include "drivers/linux/calls/completed_calls.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/userfault/page_moves.h"
#include "drivers/linux/userfault/userfault.h"
#include "port/space_memory.h"

namespace ebb {

class MoveMemory final : public SpaceMemory {
 public:
  // kUnsupported: no userfaultfd, a kernel before 6.8, or no /proc.
  static Status make(std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames,
                     std::unique_ptr<MoveMemory>& memory);
  Status create(FrameIndex frame) override;
  void destroy(FrameIndex frame) override;
  void attach(FrameIndex frame, BlockIndex block) override;
  Status detach(BlockIndex block, FrameIndex frame) override;
  void wake(BlockIndex block) override;
  void fail(BlockIndex block) override;
  void forget_failure(BlockIndex block) override;
  std::span<std::byte> home(FrameIndex frame) override { return {home_address(frame), block_bytes_}; }

  std::size_t next(std::span<BlockIndex> blocks) override;
  void interrupt() override;

  std::byte* base() const override { return space_.data(); }
  std::size_t bytes() const override { return space_.bytes(); }
  std::string description() const override;
  void leave_out_of_core_dumps() override;
  Adoption* adoption(std::string& reason) override;
  void before_fork(std::span<const BlockIndex> stay) override;
  void after_fork() override;
  Status enter_child() override;
  void close_child() override;
  void place(BlockIndex block, std::span<const std::byte> content) override;

 private:
  enum class Mark : std::uint8_t { kAbsent, kAttached, kPoisoned, kBarred };

  MoveMemory() = default;
  void lose_missing(BlockIndex block);
  Status watch_child();
  template <typename F>
  bool for_each_absent_span(F&& use) const;
  void inherit(BlockIndex block, bool inherited);
  BlockIndex block_at(std::uint64_t touched);
  void clear_failure(BlockIndex block);
  std::byte* address(BlockIndex block) const { return space_.data() + block.value() * block_bytes_; }
  // Whom a block stands for, if not for memory of the space.
  AdoptedMemory* adopter_of(BlockIndex block) const {
    AdoptedMemory* const adopted = adopted_.load(std::memory_order_acquire);
    return adopted != nullptr && adopted->holds(block) ? adopted : nullptr;
  }
  std::byte* home_address(FrameIndex frame) const { return home_.data() + frame.value() * block_bytes_; }

  std::size_t block_bytes_ = 0;
  Reservation space_;
  CompletedCalls calls_;  // on the space
  Reservation home_;
  Reservation scratch_;
  std::mutex scratch_mutex_;
  Userfault userfault_;
  PageMoves moves_;
  ZeroedArray<Mark> marks_;  // by block; kBarred: fails without access, because poison is not to be had
  FileDescriptor interrupt_fd_;
  std::unique_ptr<AdoptedMemory> adopted_owner_;
  std::atomic<AdoptedMemory*> adopted_{nullptr};  // made when first asked for; the fault thread looks for it
  std::vector<BlockIndex> inherited_;             // of the space, in order: a child has them by copy-on-write
  bool child_ = false;
};

}  // namespace ebb
