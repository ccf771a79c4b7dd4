// Victims: dead blocks first, then by worth, then what is pinned; and passing over one does not hide the next.
#include "move/victims.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

class VictimsTest : public ::testing::Test {
 protected:
  void reside(std::uint32_t index, std::uint64_t last_use, std::uint32_t live = 1) {
    static_cast<void>(table_.become(BlockIndex(index), BlockState::kResident, FrameIndex(index)));
    table_[BlockIndex(index)].last_use = last_use;
    table_[BlockIndex(index)].live = live;
  }
  std::uint32_t take() {
    const BlockIndex block = victims_.least().block;
    if (!block.valid()) return 999;
    static_cast<void>(table_.become(block, BlockState::kUntouched));
    return block.value();
  }

  PageTable table_{100, 100};
  std::unique_ptr<Policy> policy_ = make_policy("window");
  Victims victims_{table_, *policy_};
};

TEST_F(VictimsTest, NothingResidentIsNothing) { EXPECT_FALSE(victims_.least().block.valid()); }

TEST_F(VictimsTest, DeadThenOldThenPinned) {
  reside(0, 50);
  reside(1, 10);
  reside(2, 99, 0);
  reside(3, 5);
  reside(4, 60);
  victims_.set_pinned_from(50);
  EXPECT_EQ(victims_.worth(BlockIndex(2)), Victims::kDead);
  EXPECT_EQ(take(), 2u);
  EXPECT_EQ(take(), 3u);
  EXPECT_EQ(take(), 1u);
  EXPECT_LE(Victims::kPinned, victims_.least().worth);
  EXPECT_EQ(take(), 0u);
  EXPECT_EQ(take(), 4u);
  EXPECT_EQ(take(), 999u);
}

TEST_F(VictimsTest, OfTheDeadThoseUsedLongestAgoLeaveFirst) {
  reside(0, 7, 0);
  reside(1, 9, 0);
  reside(2, 5, 0);
  reside(3, 8, 0);
  EXPECT_EQ(take(), 2u);
  table_[BlockIndex(0)].last_use = 10;  // it has lived again in the meantime
  EXPECT_EQ(take(), 3u);
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(take(), 0u);
}

TEST_F(VictimsTest, OfATensorTheEndLeavesFirst) {
  for (std::uint32_t i = 0; i < 8; ++i) reside(i, 7);
  EXPECT_EQ(take(), 7u);
  EXPECT_EQ(take(), 6u);
}

TEST_F(VictimsTest, ACandidateThatHasBeenUsedIsNoLongerOne) {
  reside(0, 1);
  reside(1, 2);
  reside(2, 3);
  EXPECT_EQ(victims_.least().block, BlockIndex(0));
  table_[BlockIndex(0)].last_use = 9;
  EXPECT_EQ(take(), 1u);
}

TEST_F(VictimsTest, PassedOverBlocksDoNotHideTheOthers) {
  for (std::uint32_t i = 0; i < 50; ++i) reside(i, i + 1);
  for (std::uint32_t i = 0; i < 50; ++i) {
    ASSERT_EQ(victims_.least().block, BlockIndex(i));
    victims_.skip(victims_.least());
  }
  EXPECT_FALSE(victims_.least().block.valid());      // that was all
  EXPECT_EQ(victims_.least().block, BlockIndex(0));  // and from the start
}

TEST_F(VictimsTest, FindsTheDeadOneBehindOlderCandidates) {
  for (std::uint32_t i = 0; i < 20; ++i) reside(i, i + 1);
  EXPECT_EQ(victims_.least().block, BlockIndex(0));
  EXPECT_FALSE(victims_.least_dead().block.valid());
  table_[BlockIndex(15)].live = 0;
  victims_.note_dead(BlockIndex(15));
  EXPECT_EQ(victims_.least_dead().block, BlockIndex(15));
}

TEST_F(VictimsTest, WhatHasJustBeenFaultedForIsPinned) {
  for (std::uint32_t i = 0; i < 8; ++i) reside(i, i + 1);
  victims_.set_faulted(BlockIndex(0));
  EXPECT_EQ(victims_.least().block, BlockIndex(1));
  EXPECT_LE(Victims::kPinned, victims_.worth(BlockIndex(0)));
  for (std::uint32_t i = 1; i <= 4; ++i) victims_.set_faulted(BlockIndex(i));
  EXPECT_LT(victims_.worth(BlockIndex(0)), Victims::kPinned);  // others have been waited for since
  EXPECT_EQ(victims_.least().block, BlockIndex(0));
}

TEST_F(VictimsTest, ALaunchThatEndsUncoversItsBlocks) {
  for (std::uint32_t i = 0; i < 20; ++i) reside(i, i + 1);
  victims_.set_pinned_from(1);
  EXPECT_LE(Victims::kPinned, victims_.least().worth);
  table_[BlockIndex(9)].last_use = 0;  // as of a part of a long launch that is done
  victims_.set_pinned_from(1);
  EXPECT_EQ(victims_.least().block, BlockIndex(9));
}

}  // namespace
}  // namespace ebb
