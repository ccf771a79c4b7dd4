// TouchLoop: what it foresees of a loop that nobody announces, and when it says nothing.
#include "plan/planner/touch_loop.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint32_t kBlocks = 300;
constexpr std::uint32_t kFirst = 40;
constexpr std::uint32_t kFrames = 100;

class TouchLoopTest : public testing::Test {
 protected:
  TouchLoopTest() : table_(kFirst + kBlocks + 60, kFrames) {
    loop_.set_frames(kFrames);
    loop_.cover({BlockIndex(kFirst), kBlocks});
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      table_[BlockIndex(kFirst + i)].extent = ExtentIndex(i);
      static_cast<void>(table_.become(BlockIndex(kFirst + i), BlockState::kOnFlash));
    }
  }
  bool touch(std::uint32_t place) { return loop_.touched(BlockIndex(kFirst + place), ++stamp_); }
  void pass(std::uint32_t step = 3) {
    for (std::uint32_t i = 0; i < kBlocks; i += step) touch(i);
  }
  std::uint64_t worth(std::uint32_t block, std::uint64_t last_use = 0) {
    Block record;
    record.last_use = last_use;
    return loop_.keep(BlockIndex(block), record);
  }

  TouchLoop loop_;
  PageTable table_;
  std::uint64_t stamp_ = 0;
};

TEST_F(TouchLoopTest, GoesOnThroughTheFileBeforeItKnowsTheLoop) {
  for (std::uint32_t i = 0; i < 60; i += 3) touch(i);
  ASSERT_TRUE(loop_.active());
  EXPECT_EQ(loop_.next(table_).block.value(), kFirst + 58);
  for (std::uint32_t i = 60; i < kBlocks; i += 3) touch(i);
  touch(kBlocks - 1);
  EXPECT_FALSE(loop_.next(table_).block.valid()) << "it has not gone around yet";
  touch(0);
  EXPECT_EQ(loop_.next(table_).block.value(), kFirst + 1);
}

TEST_F(TouchLoopTest, WhatComesSoonestIsWorthMostAndWhatIsBehindLeast) {
  pass();
  for (std::uint32_t i = 0; i < 60; i += 3) touch(i);
  ASSERT_TRUE(loop_.active());
  const std::uint32_t at = kFirst + 57;
  EXPECT_GT(worth(at + 1), worth(at + 2));
  EXPECT_GT(worth(at + 2), worth(at + 3));
  EXPECT_GT(worth(at + 100), worth(at - 20)) << "just used, so needed last";
  EXPECT_GT(worth(at), worth(at + 1)) << "in use";
  EXPECT_GT(worth(at - 1), worth(at + 1)) << "threads are not all at one place";
  EXPECT_GT(worth(5, stamp_), worth(at + 100)) << "another block, used just now";
  EXPECT_LT(worth(5, 0), worth(at + 1)) << "and one used long ago";
}

TEST_F(TouchLoopTest, AsMuchAsFitsStaysEvenlyOverTheLoop) {
  pass();
  touch(0);
  ASSERT_TRUE(loop_.active());
  constexpr std::uint32_t kParts = 5;
  const std::uint64_t next = worth(kFirst + 1);  // if it does not stay, it is worth as much as what does
  for (std::uint32_t part = 0; part < kParts; ++part) {
    std::uint32_t stay = 0;
    for (std::uint32_t i = 0; i < kBlocks / kParts; ++i) {
      stay += worth(kFirst + part * (kBlocks / kParts) + i) >= next ? 1 : 0;
    }
    EXPECT_GT(stay, kFrames / kParts * 3 / 4) << part;
    EXPECT_LT(stay, kFrames / kParts * 3 / 2) << part;
  }
}

TEST_F(TouchLoopTest, TheNextAbsentBlocksComeAheadAndSomeAreHeldBack) {
  pass();
  touch(0);
  ASSERT_TRUE(loop_.active());
  bool held = false, free = false;
  std::uint32_t last = kFirst;
  std::uint32_t come = 0;
  for (Policy::Ahead next = loop_.next(table_); next.block.valid() && come < kFrames; next = loop_.next(table_)) {
    EXPECT_EQ(next.block.value(), ++last);
    (next.held ? held : free) = true;
    static_cast<void>(table_.become(next.block, BlockState::kFetching, FrameIndex(come++)));
  }
  EXPECT_TRUE(held && free);
  EXPECT_EQ(come, 12u + 4u) << "an eighth of memory, and what is to stay in between, is far enough";
}

TEST_F(TouchLoopTest, SaysNothingOfTouchesWithoutAnOrder) {
  pass();
  touch(0);
  ASSERT_TRUE(loop_.active());
  for (std::uint32_t i = 1; i < 40; ++i) touch(i * 137 % kBlocks);
  EXPECT_FALSE(loop_.active());
  for (int i = 0; i < 2; ++i) pass();
  EXPECT_TRUE(loop_.active()) << "once there is an order again";
}

TEST_F(TouchLoopTest, SaysNothingWhileLaunchesAreAnnouncedOrTheFileIsGone) {
  pass();
  touch(0);
  ASSERT_TRUE(loop_.active());
  loop_.launched();
  EXPECT_FALSE(loop_.active());
  pass();
  touch(0);
  EXPECT_TRUE(loop_.active());
  loop_.uncover({BlockIndex(kFirst), kBlocks});
  EXPECT_FALSE(loop_.active());
  EXPECT_FALSE(touch(3));
}

}  // namespace
}  // namespace ebb
