// AdoptedMemory: the Adoption of Linux: the program's own anonymous memory, watched where it is by a userfaultfd of its
// own, which tells what its owners do to it (munmap, mremap, madvise) as well as touches of what is absent.
//
// Its mutex is taken before an event is read and given back when the table is right again; who is in munmap() goes on
// only when the event has been read, and until then the kernel moves nothing through this descriptor (EAGAIN). So no
// page of a mapping that took an unmapped one's place is ever moved away. Pages leave through the Gate for the same
// reason. Whoever is answered EAGAIN lets go of the mutex and reads events itself: that waits for nobody. Under the
// mutex nothing is allocated, freed or touched that may be absent.
//
// madvise() tells of a discard before it happens and not when: for kDiscardNs a block stays where it is after one.
// Threads: as Adoption has it. Lock order: the runtime's, this one's.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/ordered_mutex.h"
#include "drivers/linux/adopt/adopted_blocks.h"
#include "drivers/linux/calls/completed_calls.h"
#include "drivers/linux/process/process_map.h"
#include "drivers/linux/userfault/gate.h"
#include "drivers/linux/userfault/patience.h"
#include "drivers/linux/userfault/userfault.h"
#include "port/adoption.h"

namespace ebb {

class AdoptedMemory final : public Adoption {
 public:
  // `home` is the userfaultfd of the frames' homes, and outlives this.
  static Status make(std::size_t block_bytes, const Userfault& home, std::unique_ptr<AdoptedMemory>& memory);

  Status judge(std::span<const std::byte> memory, std::string& reason) const override;
  void add(BlockRange blocks, std::byte* address) override;
  void remove(BlockRange blocks) override;
  Status populate(BlockIndex block) override;
  Status join(BlockIndex block) override;
  void leave(BlockIndex block) override;
  bool gone(BlockIndex block) const override;
  void apply_changes() override;
  bool changed() override { return changed_.exchange(false); }
  std::uint64_t free_bytes() const override;

  // What BackingMemory does, to these blocks. Under the runtime's lock.
  bool holds(BlockIndex block) const { return blocks_.size() > 0 && blocks_.find(block) != nullptr; }
  void attach(std::byte* home, BlockIndex block);
  Status detach(BlockIndex block, std::byte* home);
  void wake(BlockIndex block);
  void fail(BlockIndex block);
  void forget_failure(BlockIndex block);

  // Readable when somebody has touched what is absent, or changed a mapping; take_faults() then says which blocks.
  int fd() const { return userfault_.fd(); }
  int stash_fd() const { return stash_fd_.get(); }
  std::size_t take_faults(std::span<BlockIndex> blocks);

  // Around fork(), by the forking thread: the table is whole in the child.
  void before_fork();
  void after_fork() { mutex_.unlock(); }
  // For the time of a fork: a child inherits what is in this block, or not.
  void inherit(BlockIndex block, bool inherited);
  // In a child: empty memory at the same addresses, watched by `faults`, filled by place().
  Status enter_child(Userfault& faults);
  BlockIndex block_at(std::uintptr_t address) { return blocks_.at(address); }
  bool place(Userfault& faults, BlockIndex block, std::span<const std::byte> content);

 private:
  using Lock = std::unique_lock<OrderedMutex<Rank::kAdoptedMemory>>;
  static constexpr std::size_t kFaultsMax = 128;
  static constexpr std::size_t kStraysMax = 16;
  static constexpr int kTriesMax = 1'500'000;  // half a minute of pauses: a bug, not a delay
  struct Range {
    std::uintptr_t begin = 0, end = 0;
  };

  AdoptedMemory(std::size_t block_bytes, const Userfault& home)
      : block_bytes_(block_bytes), home_(home), blocks_(block_bytes) {}

  // adopted_memory.cc
  bool is_gone(const AdoptedBlock& block) const { return block.gone_pages * kPageBytes == block_bytes_; }
  std::size_t run(BlockIndex block, std::size_t at, std::size_t end, bool& there) const;
  Status pull(Lock& lock, BlockIndex index, std::byte* home);
  void push(Lock& lock, BlockIndex index, const std::byte* from, std::size_t bytes);
  void take_home(std::byte* home, std::size_t bytes);
  void clear_empty_pages(BlockIndex index, const std::byte* from, std::size_t begin, std::size_t end);
  void make_whole(std::byte* home);
  void protect(BlockIndex index, int protection);
  bool try_moving(Lock& lock, BlockIndex index);
  void give_way(Lock& lock, Patience& patience);
  void note_served(const AdoptedBlock& block);

  // adopted_changes.cc
  void read_messages();
  void touched(std::uintptr_t address);
  void unmapped(std::uintptr_t begin, std::uintptr_t end);
  void moved(std::uintptr_t from, std::uintptr_t to, std::size_t bytes);
  void discarded(std::uintptr_t begin, std::uintptr_t end);
  void add_stray(const Range& stray);
  void strays_moved(std::uintptr_t from, std::uintptr_t to, std::size_t bytes);
  bool is_stray(std::uintptr_t address) const;

  const std::size_t block_bytes_;
  const Userfault& home_;
  Userfault userfault_;
  const Userfault* touched_ = &userfault_;  // where touches arrive: in a child that of its space
  FileDescriptor stash_fd_;                 // a bell: touches that another than the fault thread has read of
  ProcessMap map_;
  mutable OrderedMutex<Rank::kAdoptedMemory> mutex_;
  Gate gate_;
  AdoptedBlocks blocks_;
  // On each span, by its first block, where its owner had it when it came.
  std::vector<std::pair<BlockIndex, CompletedCalls>> calls_;
  BlockIndex in_transit_;  // some of its pages are at the address, some are not
  // Touches of absent pages, by address: those that were told to nobody yet come first.
  std::array<std::uintptr_t, kFaultsMax> faults_{};
  std::size_t fault_count_ = 0;
  std::array<BlockIndex, kFaultsMax> stash_{};
  std::size_t stash_count_ = 0;
  // Parts of a block that its owner moved elsewhere than the rest: a touch of what was absent of them fails.
  std::array<Range, kStraysMax> strays_{};
  std::size_t stray_count_ = 0;
  std::atomic<bool> changed_{false};
};

}  // namespace ebb
