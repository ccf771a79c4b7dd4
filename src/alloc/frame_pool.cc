// See frame_pool.h.
#include "alloc/frame_pool.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace ebb {

FramePool::FramePool(BackingMemory& memory, std::uint32_t frames_max, bool oldest_first)
    : memory_(memory), oldest_first_(oldest_first), limit_(frames_max) {
  free_.reserve(frames_max);
  absent_.reserve(frames_max);
  for (std::uint32_t i = frames_max; i > 0; --i) absent_.push_back(FrameIndex(i - 1));
}

void FramePool::set_limit(std::uint32_t limit) {
  limit_ = std::clamp<std::uint32_t>(limit, 1, static_cast<std::uint32_t>(free_.capacity()));
  while (over() && !free_.empty()) {
    const FrameIndex frame = free_.back();
    free_.pop_back();
    destroy(frame);
  }
}

FrameIndex FramePool::take_free() {
  if (free_.empty()) return FrameIndex::none();
  const auto taken = oldest_first_ ? free_.begin() : std::prev(free_.end());
  const FrameIndex frame = *taken;
  free_.erase(taken);
  return frame;
}

FrameIndex FramePool::take() {
  if (!free_.empty()) return take_free();
  if (room() == 0) return FrameIndex::none();
  const FrameIndex frame = absent_.back();
  if (memory_.create(frame) != Status::kOk) {
    go_on_with_less();
    return FrameIndex::none();
  }
  absent_.pop_back();
  ++created_;
  created_peak_ = std::max(created_peak_, created_);
  return frame;
}

FrameIndex FramePool::begin_ahead() {
  if (room() == 0 || making_ahead_ > 0) return FrameIndex::none();
  const FrameIndex frame = absent_.back();
  absent_.pop_back();
  ++making_ahead_;
  ++created_;
  created_peak_ = std::max(created_peak_, created_);
  return frame;
}

void FramePool::end_ahead(FrameIndex frame, Status status) {
  EBB_CHECK_EQ(making_ahead_, 1u);
  --making_ahead_;
  if (status != Status::kOk) {
    absent_.push_back(frame);
    --created_;
    if (status == Status::kNoMemory) go_on_with_less();
  } else if (over()) {
    destroy(frame);
  } else {
    free_.insert(free_.begin(), frame);  // those that were in use before are the first to be used again
  }
}

FrameIndex FramePool::claim() {
  if (room() == 0) {
    if (over() || free_.empty()) return FrameIndex::none();
    destroy(take_free());
  }
  const FrameIndex frame = absent_.back();
  absent_.pop_back();
  ++created_;
  created_peak_ = std::max(created_peak_, created_);
  return frame;
}

void FramePool::forget(FrameIndex frame) {
  absent_.push_back(frame);
  --created_;
}

void FramePool::put(FrameIndex frame) {
  EBB_DCHECK(std::find(free_.begin(), free_.end(), frame) == free_.end());
  if (over()) {
    destroy(frame);
  } else {
    free_.push_back(frame);
  }
}

// The system has less memory than the budget says.
void FramePool::go_on_with_less() {
  if (created_ > 0) limit_ = std::max(created_, std::min(limit_, kFramesMin));
}

void FramePool::destroy(FrameIndex frame) {
  memory_.destroy(frame);
  absent_.push_back(frame);
  --created_;
}

void FramePool::validate() const {
  EBB_CHECK_EQ(created_ + absent_.size(), free_.capacity());
  EBB_CHECK_LE(free_.size(), created_);
}

}  // namespace ebb
