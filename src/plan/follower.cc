// See follower.h.
#include "plan/follower.h"

#include <algorithm>

namespace ebb {
namespace {

// How far ahead an event of the program is looked for, if it is not the one expected. Launches are telling; sizes of
// allocations repeat.
constexpr Recording::Position kLaunchWindow = 256;
constexpr Recording::Position kAllocationWindow = 16;
constexpr std::uint32_t kMissesMax = 64;  // in a row: the program does something else

}  // namespace

void Follower::budget(std::uint64_t block_bytes, std::uint32_t frames) {
  block_bytes_ = block_bytes;
  frames_ = frames;
}

void Follower::allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  next_serial_ = allocation + 1;
  live_[allocation] = blocks;
  cover(blocks);
  recording_.add_allocation(allocation, bytes);
  if (!following_) return;
  const Position position = match(Recording::allocation_signature(bytes), false);
  std::uint64_t when = kFar;
  if (position != Recording::kNever) {
    const std::uint32_t reference = plan_.event(position).reference;
    bound_[reference] = allocation;
    if (const Position first = plan_.reference(reference).first; first != Recording::kNever) when = base_ + first;
  }
  see_use(blocks, when);
}

// Room in the tables by block, before they are needed where nothing may be allocated.
void Follower::cover(BlockRange blocks) {
  if (blocks.end().value() <= next_use_.size()) return;
  next_use_.resize(blocks.end().value() + std::size_t{1024}, kFar);
}

void Follower::freed(std::uint64_t allocation) {
  live_.erase(allocation);
  recording_.add_free(allocation);
}

void Follower::launched(std::uint64_t op, std::span<const Touch> touches) {
  if (touches.empty()) return;
  first_blocks_.clear();
  for (const Touch& touch : touches) first_blocks_.push_back(live_.at(touch.allocation).first);
  recording_.add_launch(op, touches, first_blocks_);
  if (!following_) return;
  const Position position = match(Recording::launch_signature(op, touches.size()), true);
  if (position == Recording::kNever) return;
  const auto uses = plan_.uses(plan_.event(position));
  for (std::size_t i = 0; i < touches.size(); ++i) {
    bound_[uses[i].reference] = touches[i].allocation;
    see_use(touches[i].blocks, next_use_after(uses[i]));
  }
  matched(position, touches);
}

Recording::Position Follower::match(std::uint64_t signature, bool launch) {
  const Position window = launch ? kLaunchWindow : kAllocationWindow;
  const Position end = std::min(plan_.size(), cursor_ + window);
  for (Position position = cursor_; position < end; ++position) {
    if (plan_.event(position).signature != signature) continue;
    cursor_ = position + 1;
    misses_ = 0;
    return position;
  }
  if (++misses_ >= kMissesMax) {
    following_ = false;
    ++deviations_;
  }
  return Recording::kNever;
}

// When the allocation is needed after this use: later in the iteration, or in the next one.
std::uint64_t Follower::next_use_after(const Recording::Use& use) const {
  if (use.next != Recording::kNever) return base_ + use.next;
  const Recording::Reference& reference = plan_.reference(use.reference);
  const Position next = reference.serial < plan_.start() ? reference.first : plan_.first_use_after(reference.serial);
  return next == Recording::kNever ? kFar : base_ + plan_.size() + next;
}

// A block may hold several allocations: the earliest use counts, until it has passed.
void Follower::see_use(BlockRange blocks, std::uint64_t when) {
  const std::uint64_t now = base_ + cursor_;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    std::uint64_t& next = next_use_[i.value()];
    next = next < now || next == kFar ? when : std::min(next, when);
  }
}

void Follower::step() {
  const std::uint64_t start = recording_.start();
  const bool changed = !following_ || !recording_.same_events(plan_);
  std::swap(plan_, recording_);
  base_ += plan_.size();
  cursor_ = 0;
  misses_ = 0;
  recording_.begin(next_serial_, start);
  following_ = plan_.usable();
  bound_.assign(plan_.references(), 0);
  if (following_) rebuild();
  began(changed);
}

// At the start of an iteration: when each allocation that lives is needed.
void Follower::rebuild() {
  std::fill(next_use_.begin(), next_use_.end(), kFar);
  for (const auto& [serial, blocks] : live_) {
    Position first = Recording::kNever;
    if (serial >= plan_.start()) {
      first = plan_.first_use_after(serial);
    } else if (const std::uint32_t reference = plan_.find(serial); reference != Recording::kNone) {
      first = plan_.reference(reference).first;
    }
    if (first != Recording::kNever) see_use(blocks, base_ + first);
  }
}

std::uint64_t Follower::keep(BlockIndex index, const Block& block) const {
  if (!following_) return block.last_use;
  if (index.value() >= next_use_.size()) return kHorizon - kFar;
  // A use that was expected and did not come tells nothing.
  const std::uint64_t next = next_use_[index.value()];
  return kHorizon - (next + 1 < base_ + cursor_ ? kFar : next);
}

// The serial that a reference of the plan has in this iteration, or in the next; 0 if it is not known yet.
std::uint64_t Follower::resolve(std::uint32_t index, bool next_iteration) const {
  const Recording::Reference& reference = plan_.reference(index);
  if (!next_iteration && bound_[index] != 0) return bound_[index];
  if (reference.serial >= plan_.start()) return 0;
  if (live_.contains(reference.serial)) return reference.serial;
  if (reference.serial < plan_.previous_start()) return 0;
  const std::uint64_t counted = reference.serial - plan_.previous_start();
  return (next_iteration ? recording_.start() : plan_.start()) + counted;
}

BlockRange Follower::blocks_of(std::uint64_t allocation) const {
  const auto found = live_.find(allocation);
  return found == live_.end() ? BlockRange{} : found->second;
}

// A use that was not foreseen when the block was last looked at.
void Follower::expect(BlockIndex block, std::uint64_t when) {
  std::uint64_t& next = next_use_[block.value()];
  if (next == kFar || next < now() || next > when) next = when;
}

BlockRange Follower::blocks_of(const Recording::Use& use, bool next_iteration) const {
  const std::uint64_t serial = resolve(use.reference, next_iteration);
  const auto found = serial == 0 ? live_.end() : live_.find(serial);
  if (found == live_.end()) return {};
  const BlockRange all = found->second;
  const std::uint32_t first = std::min(use.first_block, all.count);
  return {BlockIndex(all.first.value() + first), std::min(use.blocks, all.count - first)};
}

}  // namespace ebb
