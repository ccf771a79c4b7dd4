// See page_table.h.
#include "space/page_table.h"

#include <type_traits>

namespace ebb {

static_assert(BlockState::kUntouched == BlockState{0}, "zeroed memory must be untouched blocks");

PageTable::PageTable(std::uint32_t blocks, std::uint32_t frames, std::uint32_t host_extents)
    : blocks_(blocks), host_extents_(host_extents), frames_(frames) {
  counts_[static_cast<std::size_t>(BlockState::kUntouched)] = blocks;
}

FrameIndex PageTable::become(BlockIndex index, BlockState state, FrameIndex frame) {
  Block& block = (*this)[index];
  EBB_CHECK(may_become(block.state, state));
  const FrameIndex before = block.frame;
  if (has_frame(state)) {
    EBB_CHECK(frame.valid());
    EBB_CHECK(!before.valid() || before == frame);
    EBB_CHECK(!frames_[frame.value()].valid() || frames_[frame.value()] == index);
    frames_[frame.value()] = index;
    block.frame = frame;
  } else {
    EBB_CHECK(!frame.valid());
    if (before.valid()) frames_[before.value()] = BlockIndex::none();
    block.frame = FrameIndex::none();
  }
  --counts_[static_cast<std::size_t>(block.state)];
  ++counts_[static_cast<std::size_t>(state)];
  block.state = state;
  return has_frame(state) ? FrameIndex::none() : before;
}

void PageTable::validate() const {
  std::array<std::uint32_t, kBlockStates> counts{};
  std::uint32_t framed = 0;
  for (std::uint32_t i = 0; i < size(); ++i) {
    const Block& block = blocks_[i];
    ++counts[static_cast<std::size_t>(block.state)];
    EBB_CHECK_EQ(block.frame.valid(), has_frame(block.state));
    if (block.frame.valid()) {
      ++framed;
      EBB_CHECK_EQ(frames_[block.frame.value()], BlockIndex(i));
    }
    if (block.state == BlockState::kOnFlash || block.state == BlockState::kFetching) EBB_CHECK(block.extent.valid());
    if (block.state == BlockState::kUntouched || block.state == BlockState::kLost) EBB_CHECK(!block.extent.valid());
    if (block.outside) EBB_CHECK(block.state == BlockState::kUntouched);
    if (block.rescue || block.owed) EBB_CHECK(block.state == BlockState::kEvicting);
    if (block.frozen) EBB_CHECK(block.owed && block.rescue);
  }
  std::uint32_t owned = 0;
  for (const BlockIndex owner : frames_) owned += owner.valid() ? 1 : 0;
  EBB_CHECK_EQ(owned, framed);
  for (std::size_t state = 0; state < counts.size(); ++state) EBB_CHECK_EQ(counts[state], counts_[state]);
}

}  // namespace ebb
