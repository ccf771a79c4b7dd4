// Engine: who gets a frame. What becomes of dead content is in engine_content.cc, what is done before anybody asks in
// engine_ahead.cc, transfers in engine_transfers.cc.
#include "move/engine.h"

#include <utility>

namespace ebb {

Engine::Engine(PageTable& table, FramePool& frames, ExtentPool& extents, BackingMemory& memory, Policy& policy,
               const Limits& limits)
    : table_(table),
      frames_(frames),
      extents_(extents),
      memory_(memory),
      policy_(policy),
      limits_(limits),
      victims_(table, policy, limits.keep_pinned),
      transfers_(limits.in_flight),
      urgent_(table, 1),
      wanted_(table, 2) {
  requests_.reserve(limits.in_flight);
  hurried_.reserve(table.frames_max());
  written_.reserve(table.frames_max());
  unread_.reserve(limits.in_flight);
}

void Engine::populate(BlockRange blocks) {
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    if (table_[i].state != BlockState::kUntouched || table_[i].queue != 0 || table_[i].outside) continue;
    if (!serve(i, Urgency::kWanted)) return;
  }
}

void Engine::want(BlockIndex index) {
  Block& block = table_[index];
  block.prefetched = false;
  block.held = false;
  if (block.state == BlockState::kEvicting && urgent_.empty()) {  // or its frame is for who waits, as in fault()
    rescue(index);
  } else if (block.state == BlockState::kReady) {
    attach(index, block.frame);
  } else if (!block.outside && block.queue == 0 &&
             (block.state == BlockState::kOnFlash || block.state == BlockState::kUntouched ||
              block.state == BlockState::kEvicting)) {
    wanted_.push(index);
  }
}

bool Engine::pending(BlockIndex index) const {
  const Block& block = table_[index];
  return block.queue != 0 || block.state == BlockState::kFetching ||
         (block.state == BlockState::kEvicting && block.rescue);
}

void Engine::hold(BlockIndex index) {
  Block& block = table_[index];
  if (block.queue != 0 || block.state == BlockState::kFetching) {
    block.held = block.state == BlockState::kFetching || block.state == BlockState::kOnFlash;
  } else if (block.state == BlockState::kResident && block.live > 0) {
    if (detach(index) == Status::kOk) {
      static_cast<void>(table_.become(index, BlockState::kReady, block.frame));
    }
  }
}

void Engine::let_go(BlockIndex index) {
  Block& block = table_[index];
  block.held = false;
  if (block.state == BlockState::kReady) attach(index, block.frame);
}

void Engine::fault(BlockIndex index) {
  Block& block = table_[index];
  const BlockState before = block.state;
  const bool asked_for = block.queue != 0 || before == BlockState::kFetching || before == BlockState::kReady;
  block.prefetched = false;
  block.held = false;
  block.awaited = block.state != BlockState::kResident && block.state != BlockState::kLost;
  victims_.set_faulted(index);
  switch (block.state) {
    case BlockState::kResident: memory_.wake(index); return;
    case BlockState::kFetching: break;
    case BlockState::kReady: attach(index, block.frame); break;
    case BlockState::kLost: memory_.fail(index); return;
    case BlockState::kEvicting:
      if (urgent_.empty()) return rescue(index);
      [[fallthrough]];  // the frame is on its way to who waits already, or neither would ever have it
    case BlockState::kUntouched:
      if (block.outside) {
        block.awaited = false;
        return memory_.wake(index);
      }
      [[fallthrough]];
    case BlockState::kOnFlash:
      if (wanted_.holds(index)) wanted_.remove(index);
      if (!urgent_.holds(index)) urgent_.push(index);
      break;
  }
  if (asked_for || before == BlockState::kOnFlash) read_ahead(index, !asked_for);
}

void Engine::serve_urgent() {
  while (!urgent_.empty()) {
    const BlockIndex block = urgent_.front();
    if (!serve(block, Urgency::kFault)) break;
    urgent_.remove(block);
  }
}

void Engine::serve_wanted() {
  while (!wanted_.empty()) {
    const BlockIndex block = wanted_.front();
    if (!serve(block, victims_.faulted(block) ? Urgency::kAwaited : Urgency::kWanted)) {
      // Frames come back as evictions end; without any under way nothing here can leave, and whoever wants the block
      // will have to fault for it.
      if (evicting_ > 0 || transfers_.full() || !urgent_.empty() || short_of_frames_) break;
    }
    wanted_.remove(block);
  }
}

void Engine::pump() {
  fail_unread();
  serve_urgent();
  if (frozen_ > 0) write_frozen();
  // Before those who want frames take what there is of transfers for the slowest lane.
  if (policy_.listens() && table_.has_host()) evict_behind(Tier::kHost);
  if (policy_.listens()) evict_behind(Tier::kFlash);
  serve_wanted();
  const bool unhurried = policy_.listens() && urgent_.empty() && wanted_.empty();
  if (unhurried && table_.has_host()) fetch_ahead(Tier::kHost);
  if (unhurried) fetch_ahead(Tier::kFlash);
  restore_reserve();
  if (frames_.free() > 0) serve_urgent();  // by what has left at once
  // Who wants has let those go first who wait; with nothing under way nobody comes back to it.
  if (transfers_.in_flight() == 0) serve_wanted();
  if (policy_.listens() && urgent_.empty() && wanted_.empty()) {
    if (table_.has_host() && limits_.clean_to_host) clean_ahead(Tier::kHost);
    clean_ahead(Tier::kFlash);
  }
  starved_ = !urgent_.empty() && transfers_.in_flight() == 0 ? urgent_.front() : BlockIndex::none();
}

void Engine::fail_starved() {
  EBB_CHECK(starved_.valid());
  urgent_.remove(starved_);
  table_[starved_].awaited = false;
  memory_.fail(starved_);
  starved_ = BlockIndex::none();
}

// Returns whether the block needs nothing more than what is under way.
bool Engine::serve(BlockIndex index, Urgency urgency) {
  Block& block = table_[index];
  switch (block.state) {
    case BlockState::kResident:
    case BlockState::kFetching: return true;
    case BlockState::kReady:
      if (!block.held) attach(index, block.frame);
      return true;
    case BlockState::kLost:
      if (urgency == Urgency::kFault) memory_.fail(index);
      return true;
    case BlockState::kEvicting:
      // Who wants it would take the frame from those who wait for it, again and again.
      if (urgency != Urgency::kFault && !urgent_.empty()) return false;
      rescue(index);
      return true;
    case BlockState::kUntouched: {
      if (block.outside) {
        memory_.wake(index);
        return true;
      }
      if (urgency != Urgency::kFault && block.live == 0) return true;
      const FrameIndex frame = acquire(index, urgency);
      if (!frame.valid()) return false;
      attach(index, frame);
      return true;
    }
    case BlockState::kOnFlash: {
      if (transfers_.full()) return false;
      const FrameIndex frame = acquire(index, urgency);
      if (!frame.valid()) return false;
      if (transfers_.full()) {  // of evictions, started for the frame
        frames_.put(frame);
        return false;
      }
      start_fetch(index, frame, urgency == Urgency::kAhead);
      return true;
    }
  }
  return false;
}

// A frame that can be had at once, or none; then as many evictions are started as there are blocks waiting.
FrameIndex Engine::acquire(BlockIndex index, Urgency urgency) {
  if (frames_.free() > 0 && !frames_.over()) return frames_.take_free();
  // On a GPU a new frame costs once what each change of mapping costs; elsewhere it costs the system's memory.
  if (limits_.keep_pinned && frames_.room() > 0) {
    if (const FrameIndex frame = frames_.take(); frame.valid()) return frame;
  }
  if (const FrameIndex frame = steal_dead(); frame.valid()) return frame;
  if (const FrameIndex frame = frames_.take(); frame.valid()) return frame;
  const std::uint32_t waiting = urgent_.size() + wanted_.size() + 1;
  const std::uint64_t worth_below = Victims::kPinned + (limits_.keep_pinned ? 0 : table_[index].last_use);
  while (evicting_ + frames_.free() < waiting && evict_least(urgency, worth_below)) {
  }
  if (urgency == Urgency::kFault && evicting_ == 0 && !short_of_frames_ && table_.count(BlockState::kReady) > 0) {
    let_go_all();  // what is held back is all that can still leave
    static_cast<void>(evict_least(urgency, worth_below));
  }
  return frames_.take_free();  // an eviction may have taken a dead block, which needs no write
}

FrameIndex Engine::steal_dead() {
  while (dead_resident_ > 0) {
    const Victims::Candidate candidate = victims_.least_dead();
    if (!candidate.block.valid()) return FrameIndex::none();
    const FrameIndex frame = table_[candidate.block].frame;
    if (detach(candidate.block) != Status::kOk) {
      victims_.skip(candidate);
      return FrameIndex::none();
    }
    static_cast<void>(table_.become(candidate.block, BlockState::kUntouched));
    --dead_resident_;
    if (!frames_.over()) return frame;
    frames_.put(frame);  // above the limit: back to the system
  }
  return FrameIndex::none();
}

void Engine::attach(BlockIndex index, FrameIndex frame) {
  static_cast<void>(table_.become(index, BlockState::kResident, frame));
  table_[index].awaited = false;
  const ExtentIndex extent = table_[index].extent;
  if (extent.valid() && !ExtentPool::in_file(extent)) {  // its copy can give way
    no_room(extents_.tier_of(extent)) = false;
    ++spare(extents_.tier_of(extent));
  }
  if (table_[index].live == 0) note_dead(index);
  memory_.attach(frame, index);
  policy_.arrived(index);
}

void Engine::restore_reserve() {
  const std::uint32_t aim = limits_.reserve + wanted_.size() + urgent_.size();
  while (frames_.free() + frames_.room() + evicting_ < aim || frames_.over()) {
    const Urgency urgency = urgent_.empty() ? Urgency::kWanted : Urgency::kFault;
    if (evicting_ > limits_.in_flight / 2 || !evict_least(urgency, Victims::kPinned)) return;
  }
}

// Starts the eviction of the block worth least, if it may go for this urgency and is worth less than `worth_below`.
bool Engine::evict_least(Urgency urgency, std::uint64_t worth_below) {
  // Who waits comes to every block in one call: the next may begin anew, after one that only the budget asked for.
  const bool waits = urgency == Urgency::kFault || urgency == Urgency::kAwaited;
  const std::uint32_t tries_max = waits ? table_.frames_max() : 16;
  // What an earlier call has passed over may be able to leave now; and where pinned blocks never leave, nobody can
  // fault for what is wanted: others are looked for before giving up.
  bool once_around = victims_.passed_over();
  bool look_again = (urgency == Urgency::kAwaited || urgency == Urgency::kWanted) &&
                    (limits_.keep_pinned || (once_around && worth_below > Victims::kPinned));
  for (std::uint32_t tries = 0; tries < tries_max; ++tries) {
    const Victims::Candidate candidate = victims_.least();
    if (!candidate.block.valid()) {
      if (!std::exchange(once_around, false)) return false;
      continue;
    }
    if (urgency != Urgency::kFault && candidate.worth >= worth_below) {
      if (std::exchange(look_again, false)) {
        victims_.look_again();
        continue;
      }
      // What could not leave may be able to by the next time. Elsewhere a fault comes to it, but not where only the
      // budget wants room. Who stops at less than all goes on where others are, or they would never get further.
      if (frames_.over() && worth_below >= Victims::kPinned) victims_.begin_again();
      return false;
    }
    if (candidate.worth == Victims::kDead) {
      const FrameIndex frame = steal_dead();
      if (!frame.valid()) continue;
      frames_.put(frame);
      return true;
    }
    if (spare_used_) {
      short_of_frames_ = true;
      return false;
    }
    if (policy_.dying(candidate.block) && drop(candidate.block)) return true;
    if (transfers_.full()) return false;
    if (start_evict(candidate.block)) return true;
    victims_.skip(candidate);
  }
  return false;
}

// As a page that the kernel has pinned, one that somebody has pinned cannot leave.
Status Engine::detach(BlockIndex index) {
  if (!limits_.keep_pinned && table_[index].pins > 0) return Status::kBusy;
  return memory_.detach(index, table_[index].frame);
}

// Takes the frame of a resident block whose content nobody will read; false if it cannot leave.
bool Engine::drop(BlockIndex index) {
  Block& block = table_[index];
  if (detach(index) != Status::kOk) return false;
  counters_.wasted += block.prefetched ? 1 : 0;
  block.prefetched = false;
  drop_extent(block);
  frames_.put(table_.become(index, BlockState::kUntouched));
  return true;
}

void Engine::validate() {
  table_.validate();
  frames_.validate();
  extents_.validate();
  victims_.validate();
  std::uint32_t in_transfers = 0;
  std::uint32_t evicting = 0;
  transfers_.for_each([&](std::uint32_t, const Transfer& transfer) {
    if (!transfer.block.valid()) ++in_transfers;
    if (transfer.kind == Transfer::Kind::kEvict) {
      evicting += !transfer.block.valid() || !table_[transfer.block].rescue ? 1 : 0;
    }
    if (transfer.block.valid()) EBB_CHECK_EQ(table_[transfer.block].frame, transfer.frame);
  });
  EBB_CHECK_EQ(evicting, evicting_);
  const std::uint32_t framed = table_.count(BlockState::kResident) + table_.count(BlockState::kEvicting) +
                               table_.count(BlockState::kFetching) + table_.count(BlockState::kReady);
  EBB_CHECK_EQ(frames_.created(), frames_.free() + frames_.making_ahead() + framed + in_transfers);
  std::uint32_t dead = 0, frozen = 0, owed = 0;
  for (std::uint32_t i = 0; i < table_.size(); ++i) {
    const Block& block = table_[BlockIndex(i)];
    dead += block.state == BlockState::kResident && block.live == 0 ? 1 : 0;
    if (block.live == 0 && !block.owed) EBB_CHECK(!block.extent.valid());
    if (block.extent.valid()) EBB_CHECK(table_.tier_below(block) == extents_.tier_of(block.extent));
    frozen += block.frozen ? 1 : 0;
    owed += block.owed ? 1 : 0;
  }
  EBB_CHECK_EQ(dead, dead_resident_);
  EBB_CHECK_EQ(frozen, frozen_);
  EBB_CHECK_EQ(owed, owed_);
}

}  // namespace ebb
