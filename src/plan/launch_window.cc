// See launch_window.h.
#include "plan/launch_window.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {
namespace {

constexpr int kBehindMax = 64;  // blocks passed over in one call

}  // namespace

void LaunchWindow::budget(std::uint64_t block_bytes, std::uint32_t frames) {
  frames_ = frames;
  policy_->budget(block_bytes, frames);
}

void LaunchWindow::allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  if (blocks.end().value() > ends_.size()) ends_.resize(blocks.end().value());
  policy_->allocated(allocation, bytes, blocks);
}

void LaunchWindow::mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  if (blocks.end().value() > ends_.size()) ends_.resize(blocks.end().value());
  policy_->mapped(allocation, bytes, blocks);
}

std::uint64_t LaunchWindow::expect(std::span<const Part> parts) {
  const std::uint64_t number = next_launch_++;
  Launch& launch = launches_[number];
  const bool may_overwrite = larger_than_memory_ == 0;
  for (const Part& part : parts) {
    for (BlockIndex i = part.blocks.first; part.blocks.count > 0 && i != part.blocks.end(); i = i.next()) {
      if (launch.needs.size() >= frames_) {
        launch.larger_than_memory = true;
        ++larger_than_memory_;
        return number;
      }
      if (i.value() < ends_.size()) add(number, launch, i, part.overwritten && may_overwrite);
    }
  }
  return number;
}

void LaunchWindow::add(std::uint64_t number, Launch& launch, BlockIndex block, bool overwritten) {
  Ends& ends = ends_[block.value()];
  if (ends.last != kNone && needs_[ends.last].launch == number) {
    needs_[ends.last].overwritten = needs_[ends.last].overwritten && overwritten;
    return;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(needs_.size()));
    needs_.emplace_back();
  }
  const std::uint32_t need = free_.back();
  launch.needs.push_back(need);
  free_.pop_back();
  needs_[need] = {block, number, kNone, overwritten};
  (ends.last == kNone ? ends.first : needs_[ends.last].next) = need;
  ends.last = need;
}

void LaunchWindow::begin(std::uint64_t launch) {
  const auto found = launches_.find(launch);
  if (found == launches_.end()) return;
  for (const std::uint32_t need : found->second.needs) needs_[need].overwritten = false;
  start_over();
}

void LaunchWindow::forget(std::uint64_t launch) {
  const auto found = launches_.find(launch);
  if (found == launches_.end()) return;
  for (const std::uint32_t need : found->second.needs) remove(need);
  larger_than_memory_ -= found->second.larger_than_memory ? 1 : 0;
  launches_.erase(found);
  start_over();
}

void LaunchWindow::remove(std::uint32_t need) {
  Ends& ends = ends_[needs_[need].block.value()];
  std::uint32_t before = kNone;
  for (std::uint32_t i = ends.first; i != need; i = needs_[i].next) {
    EBB_CHECK_NE(i, kNone);
    before = i;
  }
  (before == kNone ? ends.first : needs_[before].next) = needs_[need].next;
  if (ends.last == need) ends.last = before;
  free_.push_back(need);
}

std::uint64_t LaunchWindow::keep(BlockIndex index, const Block& block) const {
  if (queued(index)) return worth(needs_[ends_[index.value()].first].launch);
  return std::min(policy_->keep(index, block), worth(next_launch_));
}

// The first absent block in the order of the launches, as far ahead as they fit in memory together.
Policy::Ahead LaunchWindow::ahead(const PageTable& table, Tier below) {
  Cursor& cursor = cursors_[index_below(below)];
  for (auto launch = launches_.lower_bound(cursor.launch); launch != launches_.end(); ++launch) {
    if (launch->first != cursor.launch) cursor = {launch->first, 0, cursor.blocks};
    const std::vector<std::uint32_t>& needs = launch->second.needs;
    for (; cursor.need < needs.size(); ++cursor.need) {
      const std::uint32_t index = needs[cursor.need];
      const Need& need = needs_[index];
      if (ends_[need.block.value()].first != index) continue;  // an earlier launch needs it too
      if (cursor.blocks >= frames_) return {};
      const Block& block = table[need.block];
      const bool untouched = block.state == BlockState::kUntouched && block.live > 0 && below == Tier::kFlash;
      const bool absent = block.state == BlockState::kOnFlash && table.tier_below(block) == below;
      if (block.queue == 0 && (untouched || absent)) return {need.block, worth(need.launch), need.overwritten};
      ++cursor.blocks;
    }
  }
  return policy_->ahead(table, below);
}

BlockIndex LaunchWindow::behind(const PageTable& table, Tier below, std::uint64_t pinned_from) {
  for (int i = 0; i < kBehindMax; ++i) {
    const BlockIndex block = policy_->behind(table, below, pinned_from);
    if (!block.valid() || !queued(block)) return block;
  }
  return BlockIndex::none();
}

void LaunchWindow::validate() const {
  std::size_t count = 0;
  for (const auto& [number, launch] : launches_) {
    count += launch.needs.size();
    for (const std::uint32_t need : launch.needs) EBB_CHECK_EQ(needs_[need].launch, number);
  }
  EBB_CHECK_EQ(count + free_.size() + 1, needs_.size());
  std::size_t linked = 0;
  for (const Ends& ends : ends_) {
    std::uint32_t last = kNone;
    for (std::uint32_t i = ends.first; i != kNone; i = needs_[i].next) {
      if (last != kNone) EBB_CHECK_LT(needs_[last].launch, needs_[i].launch);
      last = i;
      ++linked;
    }
    EBB_CHECK_EQ(last, ends.last);
  }
  EBB_CHECK_EQ(linked, count);
}

}  // namespace ebb
