// What comes along with a touch of an absent block: more and more of a run, nothing with what is scattered.
#include "move/read_ahead.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "base/rng.h"

namespace ebb {
namespace {

constexpr std::uint32_t kMost = 8;

// A program in which blocks come at once, and stay; it is told of what is absent, and of what is held back.
class Program {
 public:
  void touch(std::uint32_t block) {
    const bool absent = !here_.contains(block), held = held_.erase(block) > 0;
    if (!absent && !held) return;
    here_.insert(block);
    absent_touches += absent ? 1 : 0;
    held_touches += held ? 1 : 0;
    const ReadAhead::Part part = ahead.touched(BlockIndex(block), absent, kMost);
    for (std::uint32_t i = 0; i < part.blocks.count; ++i) here_.insert(part.blocks.first.value() + i);
    if (part.abandoned.valid()) held_.erase(part.abandoned.value());
    if (part.held.valid()) held_.insert(part.held.value());
  }
  std::size_t here() const { return here_.size(); }
  std::size_t held() const { return held_.size(); }

  ReadAhead ahead;
  int absent_touches = 0;
  int held_touches = 0;

 private:
  std::set<std::uint32_t> here_, held_;
};

TEST(ReadAhead, ARunIsAbsentAtItsBeginningAlone) {
  Program program;
  for (std::uint32_t i = 0; i < 1000; ++i) program.touch(7 + i);
  EXPECT_EQ(program.ahead.begun(), 1u);
  EXPECT_LE(program.absent_touches, 3);
  EXPECT_LE(program.held_touches, 1000 / (kMost / 2));
  EXPECT_LE(program.here(), 1000u + kMost);
}

TEST(ReadAhead, AsManyRunsSideBySideAsThereAreThreadsAndArrays) {
  Program program;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (std::uint32_t run = 0; run < ReadAhead::kRuns; ++run) program.touch(run * 100'000 + i);
  }
  EXPECT_EQ(program.ahead.begun(), ReadAhead::kRuns);
  EXPECT_LE(program.absent_touches, 3 * static_cast<int>(ReadAhead::kRuns));
  EXPECT_LE(program.held(), ReadAhead::kRuns);
}

TEST(ReadAhead, FewRunsInLittleMemory) {
  ReadAhead ahead;
  for (std::uint32_t i = 0; i < 10; ++i) {
    for (std::uint32_t run = 0; run < 6; ++run) ahead.touched(BlockIndex(run * 100 + i), true, 1);
  }
  EXPECT_EQ(ahead.begun(), 60u) << "six are too many";
  for (std::uint32_t i = 0; i < 10; ++i) {
    for (std::uint32_t run = 0; run < 4; ++run) ahead.touched(BlockIndex(1000 + run * 100 + i), true, 1);
  }
  EXPECT_EQ(ahead.begun(), 64u);
}

TEST(ReadAhead, TouchesByLotBringNothingMore) {
  Program program;
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) program.touch(static_cast<std::uint32_t>(rng.below(1'000'000)));
  EXPECT_GT(program.ahead.begun(), 990u);
  EXPECT_LE(program.here(), 1010u);
  EXPECT_LE(program.held(), 4u);
}

TEST(ReadAhead, WhatCameInVainMakesItShorter) {
  ReadAhead ahead;
  for (std::uint32_t i = 0; i < 100; ++i) ahead.touched(BlockIndex(i), false, kMost);
  ahead.touched(BlockIndex(0), true, kMost);
  ahead.touched(BlockIndex(1), true, kMost);
  ahead.touched(BlockIndex(3), false, kMost);
  const ReadAhead::Part full = ahead.touched(BlockIndex(7), false, kMost);
  EXPECT_EQ(full.blocks.end(), BlockIndex(8 + kMost));
  // Of the next ones nothing is there any more.
  std::uint32_t block = 8;
  for (; block < 11; ++block) ahead.touched(BlockIndex(block), true, kMost);
  EXPECT_LE(ahead.touched(BlockIndex(block), true, kMost).blocks.count, 1u);
}

TEST(ReadAhead, OneBlockHeldBackARun) {
  ReadAhead ahead;
  ahead.touched(BlockIndex(0), true, kMost);
  const ReadAhead::Part first = ahead.touched(BlockIndex(1), true, kMost);
  ASSERT_TRUE(first.held.valid());
  // The program jumps over it.
  const ReadAhead::Part second = ahead.touched(BlockIndex(first.held.value() + 1), true, kMost);
  EXPECT_EQ(second.abandoned, first.held);
}

}  // namespace
}  // namespace ebb
