// PageMoves: pages on their way between a frame's home, where only we look, and a block's address, to whose mapping the
// program, another process or the kernel may do anything meanwhile: lock it, protect it, discard pages of it, share
// them, replace it; the kernel may migrate, compact, reclaim or collapse what it likes. No answer of the kernel to a
// move is therefore a bug: each has an outcome here (docs/design/0016).
//
// What is still where it came from decides, not what the kernel says that it moved: once an attempt inside UFFDIO_MOVE
// met EAGAIN, Linux 6.18 goes on moving without counting. Pages go in order, so what lies before the first one that has
// stayed has been dealt with.
//
// Owned by MoveMemory; called under the runtime's lock, on a frame that nobody else knows also without. Never
// allocates, touches no page of a block, and waits only for what is over in a moment. Invariant: at rest a page of a
// block is there or at home, never at both; a home is empty or whole.
#pragma once

#include <cstddef>

#include "drivers/linux/process/process_map.h"
#include "drivers/linux/userfault/userfault.h"
#include "ebb/status.h"

namespace ebb {

class PageMoves {
 public:
  PageMoves() = default;
  // `userfault`, which watches both sides, must outlive it. kUnsupported: no /proc.
  static Status open(const Userfault& userfault, PageMoves& moves);

  // Takes a block's pages to an empty home. Pages that the program has discarded are zeros there. kBusy: the kernel
  // does not move some, because they are locked, protected, pinned or shared with a child; all are where they were.
  // kNoMemory: so it is, and of those that had left already some could not be brought back (bring()).
  Status take(std::byte* home, std::byte* block, std::size_t bytes) const;
  // Brings a home under an absent block, and wakes who waits for it. Where the mapping does not let pages in by moving,
  // they are copied; where there is none of ours any more, they are given up, as the program has given up what it
  // unmaps. kNoMemory: the system has none for the rest of it, for many seconds; that rest is lost.
  Status bring(std::byte* block, std::byte* home, std::size_t bytes) const;
  // Makes what is missing of a resident block zeros: the program has discarded it. Wakes who waits for it.
  void fill(std::byte* block, std::size_t bytes) const;
  // Marks what is missing of a block as lost: a touch is SIGBUS, and the block does not leave. False: the kernel
  // refuses.
  bool poison_missing(std::byte* block, std::size_t bytes) const;
  // Drops the pages of a range, and marks of poison.
  static void drop(std::byte* address, std::size_t bytes);

 private:
  Userfault::Moved move(std::byte* to, std::byte* from, std::size_t bytes) const;
  std::size_t end_of_mapping(const std::byte* address, std::size_t bytes) const;

  const Userfault* userfault_ = nullptr;
  ProcessMap map_;
};

}  // namespace ebb
