// ForkBoard: what a parent tells a child that it has forked, when it has been found out: where on flash each block is
// that was in memory at the moment of the fork. One page of memory that both share, an entry a frame.
//
// The parent's mover writes (under the runtime's lock), each entry once; the child's fault thread, or a grandchild's,
// reads and waits. Invariant: an entry that is written or lost stays so.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/digest.h"
#include "base/index.h"
#include "ebb/status.h"

namespace ebb {

class ForkBoard {
 public:
  // Null: the system has no memory for it.
  static std::unique_ptr<ForkBoard> make(std::uint32_t frames);
  ~ForkBoard();
  ForkBoard(const ForkBoard&) = delete;
  ForkBoard& operator=(const ForkBoard&) = delete;

  // The parent's: the content of this frame is still to be written; has been; cannot be.
  void owe(FrameIndex frame);
  void write(FrameIndex frame, ExtentIndex extent, const Digest& digest);
  void lose(FrameIndex frame);
  bool owes(FrameIndex frame) const;
  // Whether any is owed.
  std::uint32_t owed() const { return owed_; }

  // The child's: waits until the entry of a frame that was in memory is no longer owed. kIoError: it could not be
  // written, or the parent has ended before: `pipe` has no reader any more.
  Status read(FrameIndex frame, int pipe, ExtentIndex& extent, Digest& digest) const;

 private:
  enum State : std::uint32_t { kNothing, kOwed, kWritten, kLost };
  struct Entry {
    std::atomic<std::uint32_t> state;
    std::uint32_t extent;
    Digest digest;
  };
  ForkBoard(Entry* entries, std::uint32_t frames) : entries_(entries), frames_(frames) {}
  void settle(FrameIndex frame, State state);

  Entry* entries_;
  std::uint32_t frames_;
  std::uint32_t owed_ = 0;  // the parent's count
};

}  // namespace ebb
