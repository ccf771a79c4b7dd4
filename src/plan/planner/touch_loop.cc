// See touch_loop.h.
#include "plan/planner/touch_loop.h"

namespace ebb {

void TouchLoop::cover(BlockRange blocks) {
  if (blocks.end().value() > places_.size()) {
    places_.resize(blocks.end().value(), kNone);
    mapped_.resize(blocks.end().value(), false);
  }
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) mapped_[i.value()] = true;
  order_.reserve(places_.size());  // each at most once
}

void TouchLoop::uncover(BlockRange blocks) {
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) mapped_[i.value()] = false;
  for (const BlockIndex block : order_) places_[block.value()] = kNone;
  order_.clear();
  at_ = told_at_ = score_ = 0;
  around_ = false;
}

void TouchLoop::append(BlockIndex block) {
  if (place_of(block) != kNone || !is_mapped(block)) return;
  places_[block.value()] = size();
  order_.push_back(block);
}

bool TouchLoop::touched(BlockIndex block, std::uint64_t stamp) {
  now_ = std::max(now_, stamp);
  silence_.touched();
  if (!is_mapped(block)) return false;
  const std::uint32_t place = place_of(block);
  if (place == kNone) {
    // What follows it may come with it, untouched.
    at_ = size();
    for (std::uint32_t i = 0; i < kRun; ++i) append(BlockIndex(block.value() + i));
    return false;
  }
  const std::uint32_t ahead = ahead_of(place);
  const bool behind = size() - ahead <= jitter();
  if (!behind && ahead > std::max(frames_, kLoopMin)) {
    score_ -= std::min(score_, kMiss);
    at_ = told_at_ = place;
    return true;
  }
  score_ = std::min(score_ + 1, kScoreMax);
  if (behind) return false;
  around_ = around_ || place < at_;
  at_ = place;
  // While it is gone through for the first time, the order is kept longer than what is fetched ahead.
  const bool at_end = !around_ && at_ + kReachMax >= size() && score_ >= kSure;
  for (std::uint32_t i = 0; at_end && i < kLongRun; ++i) append(BlockIndex(order_.back().value() + 1));
  if ((at_ + size() - told_at_) % size() <= frames_ / 64) return false;
  told_at_ = at_;
  return true;
}

std::uint32_t TouchLoop::staying() const {
  const std::uint32_t passing = reach() + jitter();
  return around_ && frames_ > passing ? std::min(frames_ - passing, size()) : 0;
}

bool TouchLoop::stays(std::uint32_t place) const {
  const std::uint64_t many = staying();
  return (place + std::uint64_t{1}) * many / size() > place * many / size();
}

std::uint64_t TouchLoop::keep(BlockIndex index, const Block& block) const {
  const std::uint32_t place = place_of(index);
  // Of what is in no loop, the time since its use counts as places.
  if (place == kNone) return kMost - std::min(now_ - std::min(block.last_use, now_), kMost);
  const std::uint32_t ahead = ahead_of(place);
  const bool in_use = ahead == 0 || size() - ahead <= jitter();
  if (in_use) return kMost;
  return kMost - (stays(place) ? 1 : ahead);
}

Policy::Ahead TouchLoop::next(const PageTable& table) const {
  const std::uint32_t most = around_ ? size() - 1 : size() - 1 - at_;
  for (std::uint32_t ahead = 1, passing = 0; ahead <= std::min(most, kWindowMax) && passing < reach(); ++ahead) {
    const std::uint32_t place = (at_ + ahead) % size();
    const BlockIndex block = order_[place];
    passing += stays(place) ? 0 : 1;
    if (table[block].state != BlockState::kOnFlash || table[block].queue != 0) continue;
    Policy::Ahead next;
    next.block = block;
    next.worth = kMost - ahead;
    next.held = place % 2 == 0;
    return next;
  }
  return {};
}

}  // namespace ebb
