// DeadBlocks: beside a search through all blocks, whatever becomes of them in between.
#include "move/dead_blocks.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb {
namespace {

constexpr std::uint32_t kFrames = 12;

class DeadBlocksTest : public ::testing::Test {
 protected:
  // It comes to a frame of its own.
  void reside(BlockIndex block, std::uint64_t last_use, std::uint32_t live) {
    static_cast<void>(table_.become(block, BlockState::kResident, FrameIndex(block.value())));
    table_[block].last_use = last_use;
    table_[block].live = live;
    if (live == 0) dead_.add(block);
  }
  void leave(BlockIndex block) { static_cast<void>(table_.become(block, BlockState::kUntouched)); }

  PageTable table_{kFrames, kFrames};
  DeadBlocks dead_{table_};
};

TEST_F(DeadBlocksTest, ThoseUsedLongestAgoComeFirstAndOfOneTimeTheLast) {
  EXPECT_FALSE(dead_.first().valid());
  reside(BlockIndex(1), 7, 0);
  reside(BlockIndex(2), 3, 0);
  reside(BlockIndex(3), 3, 0);
  reside(BlockIndex(4), 1, 1);
  EXPECT_EQ(dead_.first(), BlockIndex(3));
  leave(BlockIndex(3));
  EXPECT_EQ(dead_.first(), BlockIndex(2));
  table_[BlockIndex(2)].last_use = 9;
  EXPECT_EQ(dead_.first(), BlockIndex(1));
  table_[BlockIndex(1)].live = 1;
  EXPECT_EQ(dead_.first(), BlockIndex(2));
}

TEST_F(DeadBlocksTest, WhateverBecomesOfThem) {
  Rng rng(1);
  std::uint64_t now = 0;
  for (int i = 0; i < 20000; ++i) {
    const BlockIndex block(static_cast<std::uint32_t>(rng.below(kFrames)));
    Block& entry = table_[block];
    if (entry.state != BlockState::kResident) {
      reside(block, now, static_cast<std::uint32_t>(rng.below(2)));
    } else if (rng.chance(1, 3)) {
      leave(block);
    } else if (rng.chance(1, 3)) {
      entry.last_use = ++now;
    } else if (entry.live++ > 0) {
      entry.live = 0;
      dead_.add(block);
    }
    dead_.validate();
  }
}

}  // namespace
}  // namespace ebb
