// PageTable: what is where. One record per block of the space, one per frame. Pure data: it decides nothing, and knows
// neither addresses nor devices.
//
// Owned by the core, under the runtime's lock. Invariants (validate() checks them all): a block has a frame exactly in
// the states that have_frame() names, and then the frame names the block; counts per state add up to size().
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "base/tier.h"
#include "base/zeroed_array.h"
#include "space/block_state.h"

namespace ebb {

struct Block {            // all bits zero: an untouched block
  FrameIndex frame;       // valid exactly if has_frame(state)
  ExtentIndex extent;     // the copy below: true for kOnFlash and kFetching, perhaps outdated for kResident
  BlockIndex queue_next;  // links of the want queue that holds this block
  BlockIndex queue_previous;
  std::uint32_t live = 0;      // allocations that overlap the block; at 0 its content is dead
  std::uint32_t pins = 0;      // reasons to keep it where it is: users to whom a touch of an absent block is fatal
  std::uint64_t last_use = 0;  // stamp of the last announced launch, fault or allocation
  BlockState state = BlockState::kUntouched;
  std::uint8_t queue = 0;   // the number of that want queue, or 0
  bool held = false;        // kFetching: to become ready, not resident, unless awaited
  bool awaited = false;     // absent: a thread has touched it and waits
  bool rescue = false;      // kEvicting: wanted back, the frame returns when the write is over
  bool owed = false;        // kEvicting: a forked child is owed the content, so the write must happen
  bool frozen = false;      // kEvicting, owed: its write has not begun
  bool hurried = false;     // frozen: comes before those that nobody waits for
  bool outside = false;     // kUntouched: stands for memory that is not under the budget, and may have no frame
  bool prefetched = false;  // kFetching or kResident: arrived before anything asked for it
};

class PageTable {
 public:
  // The table of blocks is zeroed memory that the system provides as it is touched: a large space costs nothing.
  // Extents below `host_extents` are in host memory, the others on flash.
  PageTable(std::uint32_t blocks, std::uint32_t frames, std::uint32_t host_extents = 0);

  std::uint32_t size() const { return static_cast<std::uint32_t>(blocks_.size()); }
  std::uint32_t frames_max() const { return static_cast<std::uint32_t>(frames_.size()); }
  bool has_host() const { return host_extents_ > 0; }
  // Where a block's copy is; only for blocks that have one.
  Tier tier_below(const Block& block) const {
    return block.extent.value() < host_extents_ ? Tier::kHost : Tier::kFlash;
  }

  Block& operator[](BlockIndex block) {
    EBB_DCHECK(block.value() < size());
    return blocks_[block.value()];
  }
  const Block& operator[](BlockIndex block) const {
    EBB_DCHECK(block.value() < size());
    return blocks_[block.value()];
  }

  // The one way to change a state; checks the transition and keeps frames and counts in step. A state with a frame
  // needs `frame`; the others drop the one there was and return it.
  FrameIndex become(BlockIndex block, BlockState state, FrameIndex frame = FrameIndex::none());

  // The block whose frame this is, or none.
  BlockIndex block_of(FrameIndex frame) const { return frames_[frame.value()]; }
  std::uint32_t count(BlockState state) const { return counts_[static_cast<std::size_t>(state)]; }

  void validate() const;

 private:
  ZeroedArray<Block> blocks_;
  std::uint32_t host_extents_;
  std::vector<BlockIndex> frames_;
  std::array<std::uint32_t, kBlockStates> counts_{};
};

}  // namespace ebb
