// What is worth writing out before it leaves: from when, until when, and how much of it.
#include "plan/planner/cleanings.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ebb {
namespace {

constexpr std::uint64_t kBlockBytes = 1024;
constexpr double kLaunchNs = 100'000;

// Persistent tensors 1, 2, …, of four blocks each, and launches that read or write them.
class Iteration {
 public:
  explicit Iteration(std::uint64_t persistent) { recording_.begin(persistent + 1, persistent + 1); }
  static BlockRange blocks_of(std::uint64_t tensor) { return {BlockIndex(static_cast<std::uint32_t>(10 * tensor)), 4}; }
  void launch(const std::vector<std::pair<std::uint64_t, bool>>& uses) {
    std::vector<Touch> touches;
    std::vector<BlockIndex> firsts;
    for (const auto& [tensor, written] : uses) {
      touches.push_back({tensor, 4 * kBlockBytes, blocks_of(tensor), written});
      firsts.push_back(touches.back().blocks.first);
    }
    recording_.add_launch(1, touches, firsts);
    for (const Touch& touch : touches) recording_.add_place(touch.allocation, touch.blocks);
  }
  void allocate(std::uint64_t tensor) {
    recording_.add_allocation(tensor, 4 * kBlockBytes);
    recording_.add_place(tensor, blocks_of(tensor));
  }
  // What is cleaned if this much of a tensor leaves after these events.
  std::vector<Cleaning> cleanings(std::uint64_t tensor,
                                  const std::vector<std::pair<Recording::Position, std::uint32_t>>& after) const {
    const Pieces pieces(recording_);
    std::vector<PieceAbsence> absences;
    for (const auto& [event, blocks] : after) {
      for (std::uint32_t i = pieces.first_touch(event); i < pieces.end_touch(event); ++i) {
        const BlockRange& piece = pieces[pieces.touch(i).piece].blocks;
        // The middle of it, which no other tensor can share.
        if (piece.first.value() != blocks_of(tensor).first.value() + 1) continue;
        absences.emplace_back();
        absences.back().touch = i;
        absences.back().blocks = blocks;
      }
    }
    std::vector<double> start_ns;
    for (std::uint64_t i = 0; i <= 2 * std::uint64_t{recording_.size()}; ++i) {
      start_ns.push_back(static_cast<double>(i) * kLaunchNs);
    }
    return make_cleanings(recording_, pieces, absences, start_ns, {1000, 1000});
  }

  const Recording& recording() const { return recording_; }

 private:
  Recording recording_;
};

TEST(Cleanings, BetweenTheLaunchThatMadeItAndTheLastUseBeforeItLeaves) {
  Iteration iteration(2);
  iteration.launch({{2, false}});
  iteration.launch({{1, true}});
  iteration.launch({{2, false}});
  iteration.launch({{1, false}});
  iteration.launch({{2, false}});
  iteration.launch({{1, false}});  // leaves after this
  iteration.launch({{2, false}});
  const std::vector<Cleaning> found = iteration.cleanings(1, {{5, 2}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].use, 1u);
  EXPECT_EQ(found[0].until, 2u);  // early enough before the launch at 3
  EXPECT_EQ(found[1].use, 3u);
  EXPECT_EQ(found[1].until, 4u);
  for (const Cleaning& cleaning : found) {
    EXPECT_EQ(cleaning.leaves, 5u);
    EXPECT_EQ(cleaning.first_block, 1u);
    EXPECT_EQ(cleaning.blocks, 2u);
  }
}

TEST(Cleanings, AcrossTheEndOfTheIteration) {
  Iteration iteration(2);
  iteration.launch({{1, false}});  // forward: leaves after this
  iteration.launch({{2, false}});
  iteration.launch({{1, false}});  // backward
  iteration.launch({{2, false}});
  iteration.launch({{1, true}});  // the optimizer
  iteration.launch({{2, false}});
  const std::vector<Cleaning> found = iteration.cleanings(1, {{0, 2}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].use, 4u);
  EXPECT_EQ(found[0].until, 5u);
  EXPECT_EQ(found[0].leaves, 6u);
}

TEST(Cleanings, NotWhatIsWrittenByItsLastUse) {
  Iteration iteration(2);
  iteration.launch({{1, false}});
  iteration.launch({{2, false}});
  iteration.launch({{1, true}});
  EXPECT_TRUE(iteration.cleanings(1, {{2, 2}}).empty());
}

TEST(Cleanings, NotWhatNobodyWrites) {
  Iteration iteration(2);
  iteration.launch({{1, false}});
  iteration.launch({{2, false}});
  iteration.launch({{1, false}});
  EXPECT_TRUE(iteration.cleanings(1, {{2, 2}}).empty());
}

TEST(Cleanings, NotWhatLeftBeforeAndHasItsCopy) {
  Iteration iteration(2);
  iteration.launch({{1, true}});
  iteration.launch({{2, false}});
  iteration.launch({{1, false}});
  iteration.launch({{2, false}});
  iteration.launch({{1, false}});
  EXPECT_TRUE(iteration.cleanings(1, {{0, 2}, {4, 2}}).empty());
  // Only the part that has stayed so far.
  const std::vector<Cleaning> found = iteration.cleanings(1, {{2, 1}, {4, 2}});
  std::uint32_t second = 0;
  for (const Cleaning& cleaning : found) second += cleaning.leaves == 4 && cleaning.use == 2 ? cleaning.blocks : 0;
  EXPECT_EQ(second, 1u);
}

TEST(Cleanings, WhatIsBornIsMadeByTheTimeOfItsFirstUse) {
  Iteration iteration(2);
  iteration.allocate(3);
  iteration.launch({{2, false}});  // fills it, and does not tell
  iteration.launch({{3, false}});
  iteration.launch({{2, false}});
  iteration.launch({{3, false}});
  iteration.launch({{2, false}});
  const std::vector<Cleaning> found = iteration.cleanings(3, {{4, 2}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].use, iteration.recording().event(2).first_use);
  EXPECT_EQ(found[0].until, 3u);
}

// Made inside a launch, and used by none that follows soon: from there on it can be written.
TEST(Cleanings, WhatALaunchMakesCanBeCleanedFromThenOn) {
  Iteration iteration(2);
  iteration.launch({{2, false}});
  iteration.allocate(3);  // 1: made by the launch before
  for (int i = 0; i < 8; ++i) iteration.launch({{2, false}});
  iteration.launch({{3, false}});  // 10: leaves after it
  for (int i = 0; i < 8; ++i) iteration.launch({{2, false}});
  iteration.launch({{3, false}});
  const std::vector<Cleaning> found = iteration.cleanings(3, {{10, 2}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].use, iteration.recording().event(1).first_use);
  EXPECT_EQ(found[0].after, 1u);
}

// Eight blocks are there.
void fill(PageTable& table, CleaningQueue& queue) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    table[BlockIndex(i)].state = BlockState::kResident;
    table[BlockIndex(i)].live = 1;
  }
  queue.cover(table.size());
}

TEST(Cleanings, TheQueueNamesWhatLeavesFirstAndEachBlockOnce) {
  PageTable table(32, 8);
  CleaningQueue queue;
  fill(table, queue);
  const auto never = [](BlockIndex) { return ~0ull; };
  queue.add({0, 0, 2, Tier::kFlash, 5, 20}, {BlockIndex(0), 2}, 100);
  queue.add({0, 0, 2, Tier::kFlash, 6, 10}, {BlockIndex(4), 2}, 100);
  queue.add({0, 0, 2, Tier::kFlash, 9, 10}, {BlockIndex(4), 2}, 100);  // the same, after its next use
  const auto next = [&](std::uint64_t now, std::uint64_t pinned_from = ~0ull) {
    const BlockIndex block = queue.next(table, Tier::kFlash, now, pinned_from, never);
    return block.valid() ? static_cast<int>(block.value()) : -1;
  };
  EXPECT_EQ(next(101, 0), -1);  // in use
  EXPECT_EQ(next(101), 4);
  table[BlockIndex(5)].state = BlockState::kOnFlash;
  EXPECT_EQ(next(101), 0);
  EXPECT_EQ(next(106), -1);  // too late for the other one
  EXPECT_FALSE(queue.next(table, Tier::kHost, 101, ~0ull, never).valid());
}

TEST(Cleanings, TheQueueForgetsWhatIsTooLate) {
  PageTable table(32, 8);
  CleaningQueue queue;
  fill(table, queue);
  queue.add({0, 0, 1, Tier::kFlash, 5, 10}, {BlockIndex(0), 1}, 100);
  queue.add({0, 0, 1, Tier::kFlash, 9, 20}, {BlockIndex(4), 1}, 100);
  queue.forget_before(106);
  const auto never = [](BlockIndex) { return ~0ull; };
  EXPECT_EQ(queue.next(table, Tier::kFlash, 101, ~0ull, never), BlockIndex(4));  // even if time went back
  EXPECT_FALSE(queue.next(table, Tier::kFlash, 101, ~0ull, never).valid());
}

}  // namespace
}  // namespace ebb
