// FramePool: who has which frame, and how many there may be: the memory budget, in frames.
//
// Frames are created one by one as they are first needed, or a little before: first touch is slow, so who has nothing
// else to do makes one ahead (begin_ahead, end_ahead). They are kept. The limit moves as small allocations take their
// share of the budget; above it, free frames are destroyed.
//
// Owned by the core, under the runtime's lock; never allocates after construction.
// Invariant: created() == free() + frames under blocks, in transfers and being made ahead; free frames are at home.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "ebb/status.h"
#include "port/backing_memory.h"

namespace ebb {

class FramePool {
 public:
  static constexpr std::uint32_t kFramesMin = 8;  // fewer cannot hold what one instruction may touch

  // oldest_first: the frame that has been free for longest is the first to be used again, because a device may still be
  // at work on those freed since; otherwise the one freed last, which is warm, so that others are never touched.
  FramePool(BackingMemory& memory, std::uint32_t frames_max, bool oldest_first = false);

  std::uint32_t limit() const { return limit_; }
  std::uint32_t created() const { return created_; }
  std::uint32_t created_peak() const { return created_peak_; }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  // Frames that may still be created.
  std::uint32_t room() const { return created_ < limit_ ? limit_ - created_ : 0; }
  // Whether more frames exist than the limit allows: put() destroys until it holds again.
  bool over() const { return created_ > limit_; }

  // At most frames_max, at least 1; destroys free frames above it.
  void set_limit(std::uint32_t limit);
  // A free frame, or a new one if there is room; none otherwise.
  FrameIndex take();
  // The same, from the free ones only.
  FrameIndex take_free();
  void put(FrameIndex frame);
  // Takes an index, if there is room, for which the caller has memory created, without the lock if it likes, and tells
  // what came of it. One at a time.
  FrameIndex begin_ahead();
  void end_ahead(FrameIndex frame, Status status);
  std::uint32_t making_ahead() const { return making_ahead_; }
  // A frame for memory that exists already and comes under the budget; none if there is no room for it. A free frame
  // gives its own memory up for that. forget(): that memory is no longer ours, nor the frame's.
  FrameIndex claim();
  void forget(FrameIndex frame);
  // Of a frame whose memory its owner has unmapped: what it may have got since is given up.
  void discard(FrameIndex frame) { destroy(frame); }

  void validate() const;

 private:
  void go_on_with_less();
  void destroy(FrameIndex frame);

  BackingMemory& memory_;
  const bool oldest_first_;
  std::vector<FrameIndex> free_;    // in the order in which they were freed
  std::vector<FrameIndex> absent_;  // indices without memory
  std::uint32_t limit_;
  std::uint32_t created_ = 0;
  std::uint32_t created_peak_ = 0;
  std::uint32_t making_ahead_ = 0;  // 0 or 1; counted in created_
};

}  // namespace ebb
