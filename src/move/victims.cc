// See victims.h.
#include "move/victims.h"

#include <algorithm>

namespace ebb {
namespace {

// A scan keeps this share of the frames: the cost of a scan, some nanoseconds a frame, spreads over as many evictions.
constexpr std::uint32_t kShare = 32;
constexpr std::uint32_t kKeepMin = 4;

// Of blocks worth the same, those of one tensor, its end leaves first: its beginning is needed first. In a running
// launch it is the other way round: the beginning has been used.
bool higher(const Victims::Candidate& left, const Victims::Candidate& right) {
  if (left.worth != right.worth) return left.worth > right.worth;
  if (left.dead_since != right.dead_since) return left.dead_since > right.dead_since;
  return left.worth >= Victims::kPinned ? left.block > right.block : left.block < right.block;
}

}  // namespace

Victims::Victims(const PageTable& table, const Policy& policy, bool counted)
    : table_(table), policy_(policy), counted_(counted), dead_(table) {
  candidates_.reserve(table.frames_max());
}

std::uint64_t Victims::worth(BlockIndex index) const {
  const Block& block = table_[index];
  if (block.live == 0) return kDead;
  if (pinned(index)) return kPinned + block.last_use;
  return std::min(1 + policy_.keep(index, block), kPinned - 1);
}

Victims::Candidate Victims::candidate(BlockIndex index) const {
  return {worth(index), index, table_[index].live == 0 ? table_[index].last_use : 0};
}

bool Victims::current(const Candidate& known) const {
  if (table_[known.block].state != BlockState::kResident) return false;
  const Candidate now = candidate(known.block);
  return now.worth == known.worth && now.dead_since == known.dead_since;
}

void Victims::scan() {
  candidates_.clear();
  for (std::uint32_t i = 0; i < table_.frames_max(); ++i) {
    const BlockIndex index = table_.block_of(FrameIndex(i));
    if (!index.valid() || table_[index].state != BlockState::kResident) continue;
    const Candidate found = candidate(index);
    if (!skipped_.block.valid() || higher(found, skipped_)) candidates_.push_back(found);
  }
  passed_over_ = skipped_.block.valid();
  skipped_ = {};
  pins_changed_ = false;
  version_ = policy_.version();
  const std::size_t keep = std::min<std::size_t>(candidates_.size(), std::max(kKeepMin, table_.frames_max() / kShare));
  const auto lower = [](const Candidate& left, const Candidate& right) { return higher(right, left); };
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(keep), candidates_.end(),
                    lower);
  candidates_.resize(keep);
  std::reverse(candidates_.begin(), candidates_.end());
}

Victims::Candidate Victims::least() {
  while (!candidates_.empty() && !current(candidates_.back())) candidates_.pop_back();
  if (candidates_.empty() || version_ != policy_.version()) scan();
  // What was passed over while it was pinned may be worth least of all now.
  if (pins_changed_ && !candidates_.empty() && candidates_.back().worth >= kPinned) look_again();
  return candidates_.empty() ? Candidate{} : candidates_.back();
}

Victims::Candidate Victims::least_dead() {
  const Candidate found = least();
  if (found.block.valid() && found.worth == kDead) return found;
  // It may have died since the scan, or been passed over: what is known of others stays known.
  const BlockIndex block = dead_.first();
  return block.valid() ? candidate(block) : Candidate{};
}

void Victims::skip(const Candidate& least) {
  if (candidates_.empty() || candidates_.back().block != least.block) return;
  skipped_ = candidates_.back();
  passed_over_ = true;
  candidates_.pop_back();
}

}  // namespace ebb
