// Recording: where one is found in another, and what is left of one that is cut.
#include "plan/recording.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb {
namespace {

using Kind = Recording::Kind;

void allocate(Recording& recording, std::uint64_t serial) {
  recording.add_allocation(serial, 100 * serial);
  recording.add_place(serial, {BlockIndex(static_cast<std::uint32_t>(10 * serial)), 4});
}

// Uses the second and third block of each.
void launch(Recording& recording, std::uint64_t op, const std::vector<std::uint64_t>& serials, std::uint64_t ns = 0) {
  std::vector<Touch> touches;
  std::vector<BlockIndex> first_blocks;
  for (const std::uint64_t serial : serials) {
    const BlockIndex first(static_cast<std::uint32_t>(10 * serial));
    touches.push_back({serial, 100 * serial, {first.next(), 2}, true});
    first_blocks.push_back(first);
  }
  recording.add_launch(op, touches, first_blocks);
  recording.add_duration(ns);
}

// Makes 1, then 2 for one launch, and uses 1 once more.
Recording example() {
  Recording recording;
  recording.begin(1, 1);
  allocate(recording, 1);
  launch(recording, 10, {1});
  allocate(recording, 2);
  launch(recording, 20, {1, 2}, 7);
  recording.add_free(2);
  launch(recording, 30, {1});
  return recording;
}

TEST(Recording, IsFoundByItsLaunches) {
  Recording later;
  later.begin(3, 1);
  launch(later, 20, {1, 2});
  EXPECT_EQ(example().begin_of(later), 2u);  // with the allocation for it
  launch(later, 30, {1});
  EXPECT_EQ(example().begin_of(later), 2u);
  launch(later, 30, {1});
  EXPECT_EQ(example().begin_of(later), Recording::kNever);
  EXPECT_EQ(example().begin_of(example()), 0u);
}

TEST(Recording, ADisturbedLaunchIsNotTakenForALongerOne) {
  const auto timed = [](std::uint64_t first, std::uint64_t second) {
    Recording recording;
    recording.begin(1, 1);
    launch(recording, 10, {1}, first);
    launch(recording, 20, {1}, second);
    return recording;
  };
  Recording now = timed(5000, 60);
  now.smooth(timed(100, 100));
  EXPECT_EQ(now.event(0).ns, 125u);
  EXPECT_EQ(now.event(1).ns, 60u);
  now.smooth(timed(0, 10));  // 0: not known
  EXPECT_EQ(now.event(0).ns, 125u);
}

TEST(Recording, WhatWasMadeBeforeTheCutIsOfEarlierIterations) {
  const Recording tail = example().from(2);
  EXPECT_EQ(tail.start(), 2u);
  ASSERT_EQ(tail.size(), 4u);
  EXPECT_EQ(tail.event(0).kind, Kind::kAllocation);
  EXPECT_EQ(tail.event(1).ns, 7u);
  EXPECT_EQ(tail.event(2).kind, Kind::kFree);
  EXPECT_EQ(tail.event(3).signature, Recording::launch_signature(30, 1));
  const Recording::Use& use = tail.uses(tail.event(1))[0];
  EXPECT_EQ(use.first_block, 1u);
  EXPECT_EQ(use.blocks, 2u);
  EXPECT_TRUE(use.written);
  EXPECT_EQ(use.next, 3u);
  const Recording::Reference& old = tail.reference(tail.find(1));
  EXPECT_EQ(old.first, 1u);
  EXPECT_EQ(old.bytes, 100u);
  EXPECT_EQ(old.blocks.first, BlockIndex(10));
  EXPECT_EQ(tail.reference(tail.find(2)).freed, 2u);
}

}  // namespace
}  // namespace ebb
