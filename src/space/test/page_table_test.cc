// The page table: every transition that is allowed, every one that is not, and the books it keeps.
#include "space/page_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

using enum BlockState;
constexpr BlockState kAll[] = {kUntouched, kResident, kEvicting, kOnFlash, kFetching, kReady, kLost};
static_assert(std::size(kAll) == kBlockStates);

// Brings block 0 from untouched to `state`, with frame 0.
void bring(PageTable& table, BlockState state) {
  const BlockIndex block(0);
  const FrameIndex frame(0);
  if (state == kUntouched) return;
  static_cast<void>(table.become(block, kResident, frame));
  if (state == kResident) return;
  if (state == kReady) {
    static_cast<void>(table.become(block, kReady, frame));
    return;
  }
  static_cast<void>(table.become(block, kEvicting, frame));
  table[block].extent = ExtentIndex(0);
  if (state == kEvicting) return;
  EXPECT_EQ(table.become(block, kOnFlash), frame);
  if (state == kOnFlash) return;
  if (state == kFetching) {
    static_cast<void>(table.become(block, kFetching, frame));
    return;
  }
  static_cast<void>(table.become(block, kLost));
  table[block].extent = ExtentIndex::none();
}

TEST(PageTable, StartsUntouched) {
  const PageTable table(10, 3);
  EXPECT_EQ(table.count(kUntouched), 10u);
  EXPECT_EQ(table[BlockIndex(9)].state, kUntouched);
  EXPECT_FALSE(table.block_of(FrameIndex(2)).valid());
  table.validate();
}

TEST(PageTable, TakesAllowedTransitionsAndKeepsItsBooks) {
  for (const BlockState from : kAll) {
    for (const BlockState to : kAll) {
      if (!may_become(from, to)) continue;
      PageTable table(4, 2);
      bring(table, from);
      if (to == kUntouched || to == kLost) table[BlockIndex(0)].extent = ExtentIndex::none();
      if (to == kOnFlash || to == kFetching) table[BlockIndex(0)].extent = ExtentIndex(0);
      const FrameIndex returned = table.become(BlockIndex(0), to, has_frame(to) ? FrameIndex(0) : FrameIndex::none());
      EXPECT_EQ(returned.valid(), has_frame(from) && !has_frame(to)) << name(from) << " to " << name(to);
      EXPECT_EQ(table.block_of(FrameIndex(0)).valid(), has_frame(to));
      EXPECT_EQ(table.count(to), to == kUntouched ? 4u : 1u);
      table.validate();
    }
  }
}

TEST(PageTable, WhatMayBecomeWhat) {
  int allowed = 0;
  for (const BlockState from : kAll) {
    EXPECT_FALSE(may_become(from, from)) << name(from);
    EXPECT_EQ(may_become(from, kUntouched), from != kUntouched) << name(from);
    for (const BlockState to : kAll) allowed += may_become(from, to) ? 1 : 0;
  }
  EXPECT_FALSE(may_become(kUntouched, kFetching));  // there is nothing to fetch
  EXPECT_FALSE(may_become(kOnFlash, kResident));    // not before its checksum has been verified
  EXPECT_FALSE(may_become(kLost, kResident));       // never handed out again
  EXPECT_FALSE(may_become(kReady, kOnFlash));
  EXPECT_TRUE(may_become(kUntouched, kOnFlash));  // a file is mapped
  EXPECT_EQ(allowed, 20);
}

using PageTableDeathTest = ::testing::Test;

TEST(PageTableDeathTest, RefusesForbiddenTransitions) {
  GTEST_FLAG_SET(death_test_style, "fast");
  for (const BlockState from : kAll) {
    for (const BlockState to : kAll) {
      if (may_become(from, to)) continue;
      PageTable table(1, 1);
      bring(table, from);
      const FrameIndex frame = has_frame(to) ? FrameIndex(0) : FrameIndex::none();
      EXPECT_DEATH(static_cast<void>(table.become(BlockIndex(0), to, frame)), "may_become")
          << name(from) << " to " << name(to);
    }
  }
}

TEST(PageTableDeathTest, AFrameIsUnderOneBlock) {
  PageTable table(2, 2);
  static_cast<void>(table.become(BlockIndex(0), kResident, FrameIndex(0)));
  EXPECT_DEATH(static_cast<void>(table.become(BlockIndex(1), kResident, FrameIndex(0))), "internal error");
  EXPECT_DEATH(static_cast<void>(table.become(BlockIndex(0), kEvicting, FrameIndex(1))), "internal error");
  EXPECT_DEATH(static_cast<void>(table.become(BlockIndex(1), kResident)), "frame.valid");
}

TEST(PageTableDeathTest, ValidateFindsBrokenBooks) {
  PageTable table(2, 1);
  table[BlockIndex(0)].extent = ExtentIndex(0);
  EXPECT_DEATH(table.validate(), "internal error");
}

}  // namespace
}  // namespace ebb
