// See deepum.h.
#include "rivals/deepum.h"

#include <algorithm>

namespace ebb {

void DeepUm::cover(BlockRange blocks) {
  arrivals_.cover(blocks);
  Follower::cover(blocks);
}

void DeepUm::budget(std::uint64_t block_bytes, std::uint32_t frames) {
  Follower::budget(block_bytes, frames);
  victims_.reserve(frames);  // choose_victims() must not allocate
}

void DeepUm::matched(Position, std::span<const Touch>) { look_ahead(); }

void DeepUm::began(bool changed) {
  if (changed) {
    temporary_.assign(plan().references(), false);
    for (Position i = 0; i < plan().size(); ++i) {
      if (plan().event(i).kind == Recording::Kind::kFree) temporary_[plan().event(i).reference] = true;
    }
  }
  look_ahead();
}

// The window over the launches from the cursor on.
void DeepUm::look_ahead() {
  window_end_ = cursor();
  new_bytes_ = 0;
  victims_due_ = following();
  if (!following()) return;
  const std::uint64_t end = cursor() + std::uint64_t{plan().size()};
  std::int64_t balance = 0;
  for (std::uint32_t launches = 0; launches < kLaunchesAhead && window_end_ < end; ++window_end_) {
    const Recording::Event& next = event(window_end_);
    if (next.kind == Recording::Kind::kLaunch) {
      ++launches;
      continue;
    }
    if (!temporary_[next.reference]) continue;  // what stays is not allocated again
    const auto bytes = static_cast<std::int64_t>(plan().reference(next.reference).bytes);
    balance += next.kind == Recording::Kind::kAllocation ? bytes : -bytes;
    new_bytes_ = std::max(new_bytes_, static_cast<std::uint64_t>(std::max<std::int64_t>(balance, 0)));
  }
  scans_.fill({cursor(), 0, 0});
}

bool DeepUm::in_window(BlockIndex block) const {
  const std::uint64_t next = next_use(block);
  return following() && next >= now() && next < base() + window_end_;
}

std::uint64_t DeepUm::keep(BlockIndex index, const Block&) const {
  return (in_window(index) ? kInWindow : 0) + arrivals_.of(index);
}

// As many as the window will need frames for.
void DeepUm::choose_victims(const PageTable& table, std::uint64_t pinned_from) {
  victims_.clear();
  victims_due_ = false;
  std::uint32_t taken = table.count(BlockState::kFetching) + table.count(BlockState::kReady);
  for (std::uint32_t i = 0; i < table.frames_max(); ++i) {
    const BlockIndex index = table.block_of(FrameIndex(i));
    if (!index.valid() || table[index].state != BlockState::kResident || table[index].live == 0) continue;
    ++taken;
    const bool free_to_go = table[index].last_use < pinned_from && table[index].queue == 0 && !in_window(index);
    if (free_to_go && victims_.size() < victims_.capacity()) victims_.emplace_back(arrivals_.of(index), index);
  }
  const std::uint64_t needed = taken + new_bytes_ / block_bytes() + pace().frames_in_transit;
  const std::size_t count = std::min<std::size_t>(needed > frames() ? needed - frames() : 0, victims_.size());
  const auto middle = victims_.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(victims_.begin(), middle, victims_.end());
  victims_.resize(count);
  std::reverse(victims_.begin(), victims_.end());
}

BlockIndex DeepUm::behind(const PageTable& table, Tier below, std::uint64_t pinned_from) {
  if (victims_due_) choose_victims(table, pinned_from);
  if (below != (pace().host_blocks > 0 ? Tier::kHost : Tier::kFlash)) return BlockIndex::none();
  while (!victims_.empty()) {
    const auto [arrival, block] = victims_.back();
    if (table[block].last_use >= pinned_from) return BlockIndex::none();
    victims_.pop_back();
    if (table[block].state == BlockState::kResident && arrivals_.of(block) == arrival && !in_window(block))
      return block;
  }
  return BlockIndex::none();
}

Policy::Ahead DeepUm::ahead(const PageTable& table, Tier below) {
  if (!following()) return {};
  Scan& scan = scans_[below == Tier::kHost ? 0 : 1];
  for (; scan.event < window_end_; ++scan.event, scan.use = 0) {
    const auto uses = plan().uses(event(scan.event));
    for (; scan.use < uses.size(); ++scan.use, scan.block = 0) {
      const BlockRange blocks = blocks_of(uses[scan.use], scan.event >= plan().size());
      for (; scan.block < blocks.count; ++scan.block) {
        const BlockIndex index(blocks.first.value() + scan.block);
        const Block& block = table[index];
        if (block.state != BlockState::kOnFlash || block.queue != 0 || table.tier_below(block) != below) continue;
        expect(index, base() + scan.event);
        return {index, kInWindow - 1};
      }
    }
  }
  return {};
}

}  // namespace ebb
