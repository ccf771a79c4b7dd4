// Engine, third part: memory that the program has mapped itself, on its way under the budget and out again.
#include "move/engine.h"

namespace ebb {

void Engine::set_outside(BlockRange blocks, bool outside) {
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    EBB_CHECK(table_[i].state == BlockState::kUntouched);
    EBB_CHECK_EQ(table_[i].outside, !outside);
    table_[i].outside = outside;
  }
}

bool Engine::renew(BlockIndex index, const FilePlace& place) {
  Block& block = table_[index];
  EBB_CHECK_LT(0u, block.live);
  if (block.state == BlockState::kEvicting || block.state == BlockState::kFetching) return false;
  if (block.state == BlockState::kResident && !drop(index)) return false;
  empty(index);
  block.prefetched = false;
  block.held = false;
  map(index, place);
  return true;
}

Status Engine::vacate(BlockRange blocks) {
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    EBB_CHECK_EQ(table_[i].live, 0u);
    if (table_[i].owed) return Status::kBusy;  // freed, but a child still waits for it
    if (table_[i].state != BlockState::kResident) continue;
    const FrameIndex frame = table_[i].frame;
    if (detach(i) != Status::kOk) return Status::kBusy;
    static_cast<void>(table_.become(i, BlockState::kUntouched));
    --dead_resident_;
    frames_.put(frame);
  }
  return Status::kOk;
}

void Engine::map(BlockIndex index, const FilePlace& place) {
  Block& block = table_[index];
  EBB_CHECK(block.state == BlockState::kUntouched && !block.outside);
  block.extent = extents_.files().add(place);
  static_cast<void>(table_.become(index, BlockState::kOnFlash));
}

bool Engine::adopt(BlockIndex index) {
  EBB_CHECK(table_[index].outside);
  EBB_CHECK_LT(0u, table_[index].live);
  FrameIndex frame = frames_.claim();
  if (!frame.valid()) {
    if (const FrameIndex dead = steal_dead(); dead.valid()) frames_.put(dead);
    frame = frames_.claim();
  }
  if (!frame.valid()) {
    // Adoption goes on block after block: as many writes at once as are good for flash.
    const std::uint32_t aim = urgent_.size() + wanted_.size() + limits_.lane;
    const std::uint64_t worth_below = Victims::kPinned + table_[index].last_use;
    while (evicting_ + frames_.free() < aim && evict_least(Urgency::kAwaited, worth_below)) {
    }
    if (evicting_ == 0 && !short_of_frames_ && table_.count(BlockState::kReady) > 0) {
      let_go_all();  // what is held back is all that can still leave
      static_cast<void>(evict_least(Urgency::kAwaited, worth_below));
    }
    frame = frames_.claim();
  }
  if (!frame.valid()) return false;
  table_[index].outside = false;
  static_cast<void>(table_.become(index, BlockState::kResident, frame));
  policy_.arrived(index);
  return true;
}

void Engine::disown(BlockIndex index) {
  Block& block = table_[index];
  EBB_CHECK_LT(0u, block.live);
  leave_queues(index);
  block.outside = true;
  if (block.state == BlockState::kUntouched) return;
  EBB_CHECK(block.state == BlockState::kResident);
  drop_extent(block);
  counters_.wasted += block.prefetched ? 1 : 0;
  block.prefetched = false;
  frames_.forget(table_.become(index, BlockState::kUntouched));
}

bool Engine::abandon(BlockIndex index) {
  Block& block = table_[index];
  leave_queues(index);
  block.awaited = false;
  if (block.state == BlockState::kEvicting || block.state == BlockState::kFetching) return false;
  if (block.state == BlockState::kResident) {
    drop_extent(block);
    block.prefetched = false;
    frames_.discard(table_.become(index, BlockState::kUntouched));
  }
  empty(index);
  block.outside = true;
  return true;
}

void Engine::let_go_all() {
  for (std::uint32_t i = 0; i < table_.frames_max(); ++i) {
    if (const BlockIndex held = table_.block_of(FrameIndex(i)); held.valid()) let_go(held);
  }
}

void Engine::leave_queues(BlockIndex index) {
  if (wanted_.holds(index)) wanted_.remove(index);
  if (urgent_.holds(index)) urgent_.remove(index);
}

}  // namespace ebb
