// Engine: a moment kept for a child process. What is in memory is taken home, where nobody changes it, and comes back
// block by block as it has been written; the child knows by its frame which copy is which.
#include <algorithm>

#include "move/engine.h"

namespace ebb {

void Engine::freeze(std::vector<BlockIndex>& stay) {
  for (std::uint32_t i = 0; i < table_.frames_max(); ++i) {
    const BlockIndex index = table_.block_of(FrameIndex(i));
    if (!index.valid()) continue;
    Block& block = table_[index];
    if (block.live == 0 || block.owed || block.state == BlockState::kFetching) continue;
    if (block.state == BlockState::kEvicting) {  // the copy on its way out is the child's, too
      block.owed = true;
      ++owed_;
      continue;
    }
    if (block.state == BlockState::kResident && detach(index) != Status::kOk) {
      drop_extent(block);
      stay.push_back(index);
      continue;
    }
    static_cast<void>(table_.become(index, BlockState::kEvicting, FrameIndex(i)));
    block.held = block.prefetched = false;
    block.rescue = block.owed = block.frozen = true;
    ++owed_;
    ++frozen_;
  }
  frozen_cursor_ = 0;
}

// The next frozen block to write, or none.
BlockIndex Engine::next_frozen() {
  while (!hurried_.empty()) {
    const BlockIndex index = hurried_.back();
    hurried_.pop_back();
    if (table_[index].frozen) return index;
  }
  for (; frozen_cursor_ < table_.frames_max(); ++frozen_cursor_) {
    const BlockIndex index = table_.block_of(FrameIndex(frozen_cursor_));
    if (index.valid() && table_[index].frozen) return index;
  }
  return BlockIndex::none();
}

void Engine::write_frozen() {
  // Half of the transfers are for who waits for something else. How many of those are under way does not count: two
  // that take a block from each other would keep what is frozen from being written for ever.
  const std::uint32_t most = std::max(limits_.in_flight / 2, 1u);
  while (frozen_ > 0 && !transfers_.full() && (!hurried_.empty() || owed_ - frozen_ < most)) {
    const BlockIndex index = next_frozen();
    EBB_CHECK(index.valid());
    Transfer transfer;
    if (!find_extent(index, transfer)) {
      // The same one again when there is room.
      if (table_[index].hurried) hurried_.push_back(index);
      return;
    }
    table_[index].frozen = table_[index].hurried = false;
    --frozen_;
    write_out(transfer);
  }
}

// The child is told where the content is that it is owed; none: nowhere.
void Engine::pay(BlockIndex index, ExtentIndex extent) {
  Block& block = table_[index];
  if (extent.valid()) extents_.retain(extent);
  written_.push_back({block.frame, extent});
  block.owed = false;
  --owed_;
}

void Engine::give_up_frozen() {
  for (std::uint32_t i = 0; frozen_ > 0 && i < table_.frames_max(); ++i) {
    const BlockIndex index = table_.block_of(FrameIndex(i));
    if (!index.valid() || !table_[index].frozen) continue;
    Block& block = table_[index];
    block.frozen = block.hurried = block.rescue = false;
    --frozen_;
    // Perhaps outdated, as a file's would show when the block leaves.
    const bool keep = block.live > 0 && block.extent.valid() && ExtentPool::in_file(block.extent);
    if (!keep) drop_extent(block);
    pay(index, ExtentIndex::none());
    attach(index, block.frame);
  }
  hurried_.clear();
}

}  // namespace ebb
