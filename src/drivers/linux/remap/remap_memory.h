// RemapMemory: frames are pages of a memfd, mapped for good at home and, while they are attached, a second time in the
// space; an absent block is mapped with no access, and SIGSEGV tells who touches it. The fallback for kernels without
// UFFDIO_MOVE and for containers without userfaultfd; it needs no privilege.
//
// What is lost against MoveMemory: a system call on an absent block fails with EFAULT instead of waiting, unless
// libebb_calls.so completes it; a block whose pages a device still writes for the program (direct I/O into a tensor,
// registered buffers) is not seen to be pinned, and may leave too early; every attached block is a mapping of its own,
// of which a process has vm.max_map_count.
//
// A mapping that the system refuses for the moment (vm.max_map_count, RLIMIT_AS, locked memory) is asked for again at
// each touch of the block, and the touch fails with SIGBUS when that has been so for too long.
//
// Invariant: at rest an address of the space is a page of the memfd, or has no access; never both, and nothing else but
// what the program has put there itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/zeroed_array.h"
#include "drivers/linux/calls/completed_calls.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/remap/signal_faults.h"
#include "drivers/linux/system/system_files.h"
#include "port/space_memory.h"

namespace ebb {

class RemapMemory final : public SpaceMemory {
 public:
  // On failure `reason` tells a person what is in the way and what to do.
  static Status make(std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames,
                     std::unique_ptr<RemapMemory>& memory, std::string& reason);

  Status create(FrameIndex frame) override;
  void destroy(FrameIndex frame) override;
  void attach(FrameIndex frame, BlockIndex block) override;
  Status detach(BlockIndex block, FrameIndex frame) override;
  void wake(BlockIndex block) override;
  void fail(BlockIndex block) override { faults_.fail(block); }
  void forget_failure(BlockIndex) override {}  // only those who wait now are told
  std::span<std::byte> home(FrameIndex frame) override { return {home_address(frame), block_bytes_}; }

  std::size_t next(std::span<BlockIndex> blocks) override { return faults_.next(blocks); }
  void interrupt() override { faults_.interrupt(); }
  void prepare_thread() override;
  bool threads_prepared() const override;

  std::byte* base() const override { return space_.data(); }
  std::size_t bytes() const override { return space_.bytes(); }
  std::string description() const override;
  void leave_out_of_core_dumps() override;
  Adoption* adoption(std::string& reason) override;
  // What is mapped shared cannot be inherited as it is: a child's touch of it fails.
  void before_fork(std::span<const BlockIndex> stay) override { stay_.assign(stay.begin(), stay.end()); }
  void after_fork() override { stay_.clear(); }
  Status enter_child() override;
  void close_child() override { faults_.abandon(); }
  void place(BlockIndex block, std::span<const std::byte> content) override;

 private:
  RemapMemory() = default;
  Status map_home(std::uint32_t frames);
  bool map_frame_of(BlockIndex block, FrameIndex frame);
  bool map_nothing(BlockIndex block);
  std::byte* address(BlockIndex block) const { return space_.data() + block.value() * block_bytes_; }
  std::byte* home_address(FrameIndex frame) const { return home_.data() + frame.value() * block_bytes_; }

  std::size_t block_bytes_ = 0;
  FileDescriptor memory_fd_;
  Reservation space_;
  CompletedCalls calls_;  // on the space
  Reservation home_;
  SignalFaults faults_;
  struct Attached {
    FrameIndex frame;     // none: absent
    bool mapped = false;  // or still to be
    std::uint16_t refused = 0;
  };
  ZeroedArray<Attached> attached_;  // by block
  std::vector<BlockIndex> stay_;
  bool child_ = false;
  bool in_core_dumps_ = true;
  std::vector<bool> placed_;  // in a child: blocks that have their content
};

}  // namespace ebb
