// See cyclic_reuse.h.
#include "plan/planner/cyclic_reuse.h"

namespace ebb {

bool CyclicReuse::arrived(BlockIndex block) {
  const std::uint32_t i = block.value();
  if (i >= came_.size()) return false;
  const bool again = came_[i] != 0;
  const std::uint32_t distance = ++now_ - came_[i];
  came_[i] = now_;
  if (again && silence_.lasts()) judge(distance);
  passes_[i] = again && keeping_;
  return active() && now_ % std::max(frames_ / 64, 1u) == 0;
}

void CyclicReuse::judge(std::uint32_t distance) {
  if (distance / kLoopMax > frames_) return;  // no loop, or one in which it stayed until now
  if (keeping_) {
    // In the first pass after the decision, anything between the two.
    const std::uint32_t stay = frames_ - std::min(frames_, in_use());
    const std::uint32_t least = loop_ - std::min(loop_, stay);
    const bool as_meant = distance >= least - least / 4 && distance <= loop_ + loop_ / 4;
    score_ = as_meant ? std::min(score_ + 1, kMost) : score_ - std::min(score_, kMiss);
    if (score_ == 0 || (now_ - since_) / trust_ > frames_) stop_keeping(score_ == 0);
    return;
  }
  if (!alike(distance, loop_) || distance <= frames_) {
    score_ -= std::min(score_, kMiss);
    if (score_ == 0) loop_ = distance;
    return;
  }
  if (++score_ < needed_) return;
  keeping_ = true;
  since_ = now_;
  score_ = kMost;
}

void CyclicReuse::stop_keeping(bool failed) {
  keeping_ = false;
  score_ = 0;
  needed_ = failed ? std::min(kMoreNeeded * needed_, kNeededMax) : needed_;
  trust_ = failed ? kTrust : std::min(2 * trust_, kTrustMax);
}

}  // namespace ebb
