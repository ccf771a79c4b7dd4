// See launches.h.
#include "core/launches.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ebb {
namespace {

bool is_one_group(std::span<const CoreRange> ranges) { return ranges.front().group == ranges.back().group; }

}  // namespace

std::uint64_t Launches::expect(std::span<const CoreRange> ranges) {
  if (!state_.policy.listens()) return 0;
  parts_.clear();
  for (const CoreRange& range : ranges) {
    const BlockRange blocks = state_.blocks_of(range.offset, range.bytes);
    const BlockRange whole = range.overwritten ? state_.whole_blocks_of(range.offset, range.bytes) : BlockRange{};
    if (whole.count == 0) {
      parts_.push_back({blocks, false});
      continue;
    }
    // At either end there may be a block of which something stays.
    const std::uint32_t before = whole.first.value() - blocks.first.value();
    if (before > 0) parts_.push_back({{blocks.first, before}, false});
    parts_.push_back({whole, true});
    if (before + whole.count < blocks.count) parts_.push_back({{whole.end(), 1}, false});
  }
  return state_.policy.expect(parts_);
}

std::uint64_t Launches::announce(std::uint64_t op, std::span<const CoreRange> ranges) {
  const std::uint64_t ticket = ++state_.clock;
  if (!state_.policy.listens()) return ticket;
  ++count_;
  touches_.clear();
  std::uint64_t needed = 0;
  for (const CoreRange& range : ranges) {
    const BlockRange blocks = state_.blocks_of(range.offset, range.bytes);
    needed += blocks.count;
    progress(blocks.first);
    if (range.overwritten) {
      const BlockRange whole = state_.whole_blocks_of(range.offset, range.bytes);
      for (BlockIndex i = whole.first; whole.count > 0 && i != whole.end(); i = i.next()) state_.engine.forsake(i);
    }
    add_touch(op, range, blocks);
  }
  find_step(op);
  running_.push_back({ticket, op, ticket});
  if (!state_.config.faults || !exceeds_memory(needed, state_.frames.limit())) {
    announce_short(ticket, ranges);
  } else if (is_one_group(ranges)) {
    running_.back().pinned_from = ticket + 1;  // it slides
  } else {
    announce_long(ticket, ranges);
  }
  update_pins();
  state_.policy.launched(op, touches_);
  return ticket;
}

void Launches::add_touch(std::uint64_t op, const CoreRange& range, BlockRange blocks) {
  if (!range.in_allocation) return state_.policy.used_at_random(op, blocks);
  if (const MappedFiles::Part* part = files_.part_of(range.offset, range.bytes); part != nullptr) {
    touches_.push_back({part->serial, part->bytes, blocks, range.written});
    return;
  }
  const Heap::Range* found = state_.heaps.find(range.allocation);
  if (found != nullptr) touches_.push_back({found->serial, range.bytes, blocks, range.written});
}

void Launches::announce_short(std::uint64_t ticket, std::span<const CoreRange> ranges) {
  for (const CoreRange& range : ranges) {
    const BlockRange blocks = state_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      Block& block = state_.table[i];
      block.last_use = ticket;
      if (block.state == BlockState::kResident) {
        needs_.ahead += block.prefetched ? 1 : 0;
        block.prefetched = false;
      } else {
        note_need(block);
        state_.engine.want(i);
      }
    }
  }
}

void Launches::note_need(const Block& block) {
  if (block.state == BlockState::kOnFlash) ++needs_.absent;
  if (block.state == BlockState::kFetching) ++needs_.arriving;
}

// Larger than memory: its beginning is wanted now, the rest as it proceeds. What it needs later is worth less.
void Launches::announce_long(std::uint64_t ticket, std::span<const CoreRange> ranges) {
  LongLaunch launch(ticket, state_.frames.limit());
  for (const CoreRange& range : ranges) launch.add(state_.blocks_of(range.offset, range.bytes), range.group);
  state_.clock += launch.size();
  for (std::uint32_t i = 0; i < launch.size(); ++i) state_.table[launch.block(i)].last_use = launch.stamp(i);
  advance(long_launches_.emplace_back(std::move(launch)), 0);
}

// Of a launch that is served as it touches its blocks those touched last are in use.
void Launches::touched(BlockIndex block) {
  progress(block);
  const std::uint64_t latest = std::clamp<std::uint64_t>(state_.frames.limit() / 8, 2, 64);
  bool slides = false;
  for (Running& launch : running_) {
    if (!launch.by_touch()) continue;
    launch.pinned_from = std::max(launch.ticket + 1, state_.clock + 1 - std::min(state_.clock, latest));
    slides = true;
  }
  if (slides) update_pins();
}

// A launch that goes through more than memory has come this far.
void Launches::progress(BlockIndex block) {
  for (LongLaunch& launch : long_launches_) {
    const std::uint32_t position = launch.find(block);
    if (position != LongLaunch::kNone) advance(launch, position);
  }
}

// A long launch has come to `position`: what is behind may leave, the next part is wanted.
void Launches::advance(LongLaunch& launch, std::uint32_t position) {
  const LongLaunch::Step step = launch.advance(position);
  for (std::uint32_t i = step.behind_first; i < step.behind_end; ++i) {
    const BlockIndex index = launch.block(i);
    if (state_.table[index].last_use == launch.stamp(i)) state_.engine.age(index, launch.ticket() - 1);
  }
  for (std::uint32_t i = step.wanted_first; i < step.wanted_end; ++i) {
    const BlockIndex index = launch.block(i);
    if (state_.table[index].state != BlockState::kResident) {
      note_need(state_.table[index]);
      state_.engine.want(index);
    }
    if (launch.is_marker(i)) state_.engine.hold(index);
  }
}

BlockIndex Launches::awaited(std::uint64_t ticket, std::span<const CoreRange> ranges) const {
  if (is_by_touch(ticket)) return BlockIndex::none();
  for (const LongLaunch& launch : long_launches_) {
    if (launch.ticket() != ticket) continue;
    for (std::uint32_t i = 0; i < launch.start_size(); ++i) {
      const BlockIndex block = launch.block(i);
      if (state_.table[block].state != BlockState::kResident && state_.engine.pending(block)) return block;
    }
    return BlockIndex::none();
  }
  return first_pending(ranges);
}

void Launches::retire(std::uint64_t ticket) {
  const auto found = std::find_if(running_.rbegin(), running_.rend(),
                                  [ticket](const Running& launch) { return launch.ticket == ticket; });
  if (found == running_.rend()) return;
  running_.erase(std::next(found).base());
  update_pins();
  std::erase_if(long_launches_, [&](const LongLaunch& launch) {
    if (launch.ticket() != ticket) return false;
    for (std::uint32_t i = 0; i < launch.size(); ++i) state_.engine.let_go(launch.block(i));
    return true;
  });
}

bool Launches::is_by_touch(std::uint64_t ticket) const {
  return std::any_of(running_.begin(), running_.end(),
                     [ticket](const Running& launch) { return launch.ticket == ticket && launch.by_touch(); });
}

bool Launches::is_long(std::uint64_t ticket) const {
  return is_by_touch(ticket) || std::any_of(long_launches_.begin(), long_launches_.end(),
                                            [ticket](const LongLaunch& launch) { return launch.ticket() == ticket; });
}

void Launches::update_pins() {
  std::uint64_t from = std::numeric_limits<std::uint64_t>::max();
  for (const Running& launch : running_) from = std::min(from, launch.pinned_from);
  state_.engine.set_pinned_from(from);
}

BlockIndex Launches::first_pending(std::span<const CoreRange> ranges) const {
  for (const CoreRange& range : ranges) {
    const BlockRange blocks = state_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (state_.table[i].state != BlockState::kResident && state_.engine.pending(i)) return i;
    }
  }
  return BlockIndex::none();
}

bool Launches::lost(std::span<const CoreRange> ranges) const {
  if (state_.table.count(BlockState::kLost) == 0) return false;
  for (const CoreRange& range : ranges) {
    const BlockRange blocks = state_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (state_.table[i].state == BlockState::kLost) return true;
    }
  }
  return false;
}

void Launches::step() {
  earlier_run_.forget();
  steps_are_told_ = true;
  end_iteration();
}

void Launches::end_iteration() {
  ++iterations_;
  state_.heaps.step();
  state_.policy.step();
}

void Launches::find_step(std::uint64_t op) {
  if (steps_are_told_ || touches_.empty()) return;
  if (std::optional<Recording> iteration = earlier_run_.begins(op, touches_)) {
    period_.foretell(*iteration);
    state_.policy.foretell(*iteration);
  }
  if (!period_.begins(op, touches_, state_.serial)) return;
  end_iteration();
}

}  // namespace ebb
