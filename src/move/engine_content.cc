// Engine: whose a block's content is, what becomes of it when nobody has it any more, and of its copies.
#include <algorithm>
#include <utility>

#include "move/engine.h"

namespace ebb {

void Engine::retain(BlockRange blocks) {
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    Block& block = table_[i];
    if (block.live++ == 0 && block.state == BlockState::kResident) --dead_resident_;
  }
}

void Engine::age(BlockIndex index, std::uint64_t last_use) {
  Block& block = table_[index];
  block.last_use = last_use;
  if (block.state == BlockState::kResident && block.live == 0) victims_.note_dead(index);
}

void Engine::release(BlockRange blocks) {
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    EBB_CHECK_LT(0u, table_[i].live);
    if (--table_[i].live == 0 && !table_[i].owed) discard(i);
  }
}

// The content is dead. A resident block keeps its frame, ready for the next allocation here or anywhere.
void Engine::discard(BlockIndex index) {
  Block& block = table_[index];
  switch (block.state) {
    case BlockState::kUntouched: return;
    case BlockState::kResident:
      note_dead(index);
      drop_extent(block);
      return;
    case BlockState::kReady:
    case BlockState::kOnFlash:
    case BlockState::kLost: return empty(index);
    case BlockState::kEvicting:
    case BlockState::kFetching:
      transfers_.for_each([&](std::uint32_t token, Transfer& transfer) {
        if (transfer.block != index) return;
        const bool unsent = std::any_of(requests_.begin(), requests_.end(),
                                        [&](const FlashRequest& request) { return request.token == token; });
        transfer.block = BlockIndex::none();
        // The transfer holds the reference now.
        const ExtentIndex held = std::exchange(block.extent, ExtentIndex::none());
        if (transfer.kind == Transfer::Kind::kEvict && !transfer.in_place) transfer.copy = held;
        if (transfer.kind == Transfer::Kind::kEvict && block.rescue) ++evicting_;
        block.rescue = false;
        if (unsent) cancel(token);
      });
      static_cast<void>(table_.become(index, BlockState::kUntouched));
      return;
  }
}

// What neither the program nor a transfer has in use.
void Engine::empty(BlockIndex index) {
  if (table_[index].state != BlockState::kReady) return forsake(index);
  drop_extent(table_[index]);
  frames_.put(table_.become(index, BlockState::kUntouched));
}

void Engine::forsake(BlockIndex index) {
  Block& block = table_[index];
  if (block.state == BlockState::kLost) memory_.forget_failure(index);
  if (block.state != BlockState::kOnFlash && block.state != BlockState::kLost) return;
  drop_extent(block);
  static_cast<void>(table_.become(index, BlockState::kUntouched));
}

void Engine::give_up(BlockIndex index) {
  if (table_[index].owed) return;
  if (table_[index].state != BlockState::kResident) return empty(index);
  static_cast<void>(drop(index));
}

void Engine::drop_extent(Block& block) {
  if (!block.extent.valid()) return;
  release_extent(block.extent);
  block.extent = ExtentIndex::none();
}

void Engine::release_extent(ExtentIndex extent) {
  if (ExtentPool::in_file(extent)) return extents_.release(extent);
  no_room(extents_.tier_of(extent)) = false;
  extents_.release(extent);
}

void Engine::release_orphan(const Transfer& transfer) {
  release_extent(transfer.extent);
  if (transfer.copy.valid()) release_extent(transfer.copy);
}

}  // namespace ebb
