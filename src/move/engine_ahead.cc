// Engine: what is done before anybody asks for it, by the policy's advice or because touches come in runs.
#include "move/engine.h"

namespace ebb {
namespace {

constexpr std::uint32_t kCleaningMax = 2;  // so that a lane with two stages, or with latency, is not idle in between

}  // namespace

// Fetches what the policy expects next, into frames that nobody is about to need, or in place of blocks worth less.
void Engine::fetch_ahead(Tier below) {
  while (!transfers_.full() && in_lane(lane_in(below)) < limits_.lane) {
    const Policy::Ahead ahead = policy_.ahead(table_, below);
    if (!ahead.block.valid() || in_lane(lane_in(below)) >= ahead.at_once) return;
    const ExtentIndex extent = table_[ahead.block].extent;  // the next one may be in the other tier, whose lane is full
    if (extent.valid() && in_lane(lane_in(extents_.tier_of(extent))) >= limits_.lane) return;
    if (frames_.free() + frames_.room() + dead_resident_ < ahead.spare) return;
    if (frames_.free() + frames_.room() <= limits_.reserve) {
      if (const FrameIndex frame = steal_dead(); frame.valid()) frames_.put(frame);
    }
    if (frames_.free() + frames_.room() > limits_.reserve) {
      // Frames that have been freed for what the other tier has, and is needed more, are not for this: it would be sent
      // away for that again, without end. What has no worth was planned to come now.
      const Tier other = below == Tier::kHost ? Tier::kFlash : Tier::kHost;
      const bool rival = table_.has_host() && ahead.worth > 0 && in_lane(lane_in(other)) < limits_.lane;
      if (rival && policy_.ahead(table_, other).worth > ahead.worth) return;
      if (ahead.overwritten) forsake(ahead.block);
      if (!serve(ahead.block, Urgency::kAhead)) return;
      if (ahead.held) hold(ahead.block);
    } else if (frames_.free() + evicting_ > limits_.reserve + limits_.lane / 2 ||
               !evict_least(Urgency::kAhead, ahead.worth + 1)) {
      return;
    }
  }
}

// Sends out what the policy has no use for until it comes back, before anybody has to wait for its frame.
void Engine::evict_behind(Tier below) {
  while (!transfers_.full() && in_lane(lane_out(below)) < limits_.lane) {
    const BlockIndex index = policy_.behind(table_, below, victims_.pinned_from());
    if (!index.valid()) return;
    short_of_frames_ = short_of_frames_ || spare_used_;  // a plan that sends blocks out knows that memory will be short
    const Block& block = table_[index];
    if (block.state != BlockState::kResident || block.live == 0 || victims_.pinned(index)) continue;
    static_cast<void>(start_evict(index));
  }
}

// Writes what will leave before it changes, while its lane has nothing else to do: few blocks at a time, so that what
// has to leave now does not wait long.
void Engine::clean_ahead(Tier below) {
  while (!transfers_.full() && in_lane(lane_out(below)) < kCleaningMax) {
    const BlockIndex index = policy_.clean(table_, below, victims_.pinned_from());
    if (!index.valid()) return;
    const Block& block = table_[index];
    if (block.state != BlockState::kResident || block.live == 0 || victims_.pinned(index)) continue;
    if (block.extent.valid() && ExtentPool::in_file(block.extent)) continue;  // it is where it belongs
    if (!block.extent.valid() && extents_.free(below) == 0) return;           // room is for what leaves
    if (!start_clean(index)) return;
  }
}

// Of what goes on behind it, the next.
void Engine::read_ahead(BlockIndex index, bool absent) {
  const ReadAhead::Part part = read_ahead_.touched(index, absent, limits_.read_ahead);
  if (limits_.read_ahead == 0) return;
  if (part.abandoned.valid() && part.abandoned.value() < table_.size()) let_go(part.abandoned);
  for (std::uint32_t i = 0; i < part.blocks.count; ++i) {
    const BlockIndex next(part.blocks.first.value() + i);
    if (next.value() >= table_.size()) return;
    Block& block = table_[next];
    if (block.state != BlockState::kOnFlash || block.queue != 0) continue;
    block.last_use = table_[index].last_use;  // or it would be the first to leave again
    wanted_.push(next);
    if (next == part.held) hold(next);
  }
}

}  // namespace ebb
