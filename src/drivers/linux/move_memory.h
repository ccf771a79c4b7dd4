// MoveMemory: frames are private anonymous memory, moved page table entry by page table entry between their home and
// the space with UFFDIO_MOVE: no copy, 2 to 4 microseconds for a huge page, one mapping whatever moves.
//
// Both ranges are watched by one userfaultfd: touches of absent blocks arrive in next(). A touch of an absent frame at
// home would be a bug of ours, and is reported as one. Frames get their memory in a scratch mapping that is not
// watched, because populating a watched one would fault to ourselves; one at a time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "drivers/linux/adopt/adopted_memory.h"
#include "drivers/linux/reservation.h"
#include "drivers/linux/userfault.h"
#include "port/space_memory.h"

namespace ebb {

class MoveMemory final : public SpaceMemory {
 public:
  // kUnsupported: no userfaultfd, or a kernel before 6.8.
  static Status make(std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames,
                     std::unique_ptr<MoveMemory>& memory);
  ~MoveMemory() override;

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
  Adoption* adoption(std::string& reason) override;
  void before_fork() override;
  void after_fork() override;
  Status enter_child() override;
  void place(BlockIndex block, std::span<const std::byte> content) override;

 private:
  MoveMemory() = default;
  BlockIndex block_at(std::uint64_t touched) const;
  void move_when_free(std::byte* to, std::byte* from);
  std::byte* address(BlockIndex block) const { return space_.data() + block.value() * block_bytes_; }
  // Whom a block stands for, if not for memory of the space.
  AdoptedMemory* adopter_of(BlockIndex block) const {
    AdoptedMemory* const adopted = adopted_.load(std::memory_order_acquire);
    return adopted != nullptr && adopted->holds(block) ? adopted : nullptr;
  }
  std::byte* home_address(FrameIndex frame) const { return home_.data() + frame.value() * block_bytes_; }

  std::size_t block_bytes_ = 0;
  Reservation space_;
  Reservation home_;
  Reservation scratch_;
  std::mutex scratch_mutex_;
  Userfault userfault_;
  int interrupt_fd_ = -1;
  std::unique_ptr<AdoptedMemory> adopted_owner_;
  std::atomic<AdoptedMemory*> adopted_{nullptr};  // made when first asked for; the fault thread looks for it
  bool child_ = false;
};

}  // namespace ebb
