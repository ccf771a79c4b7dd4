// The published rivals, alone: what their planners choose on recordings made by hand, and what deepum names next.
#include <gtest/gtest.h>

#include <map>

#include "rivals/deepum.h"
#include "rivals/g10_planner.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 1 << 20;
constexpr std::uint64_t kMs = 1'000'000;

// One iteration, written as a program would do it.
class Program {
 public:
  Program() { recording_.begin(1, 1); }

  // A tensor of `blocks` blocks.
  std::uint64_t allocate(std::uint32_t blocks) {
    const std::uint64_t serial = next_++;
    blocks_[serial] = {BlockIndex(next_block_), blocks};
    next_block_ += blocks;
    recording_.add_allocation(serial, blocks * kBlock);
    return serial;
  }
  void free(std::uint64_t serial) { recording_.add_free(serial); }
  void launch(std::uint64_t ns, std::initializer_list<std::uint64_t> serials) {
    std::vector<Touch> touches;
    std::vector<BlockIndex> first_blocks;
    for (const std::uint64_t serial : serials) {
      touches.push_back({serial, blocks_[serial].count * kBlock, blocks_[serial]});
      first_blocks.push_back(blocks_[serial].first);
    }
    recording_.add_launch(++op_, touches, first_blocks);
    recording_.add_duration(ns);
  }
  const Recording& recording() const { return recording_; }
  // The reference of the tensor that an absence is of.
  std::uint64_t serial_of(const TensorAbsence& absence) const {
    for (Recording::Position i = 0; i < recording_.size(); ++i) {
      const Recording::Event& event = recording_.event(i);
      if (absence.use < event.first_use || absence.use >= event.first_use + event.uses) continue;
      return recording_.reference(recording_.uses(event)[absence.use - event.first_use].reference).serial;
    }
    return 0;
  }

 private:
  Recording recording_;
  std::map<std::uint64_t, BlockRange> blocks_;
  std::uint64_t next_ = 1;
  std::uint32_t next_block_ = 0;
  std::uint64_t op_ = 0;
};

// A block takes a millisecond to host memory and four to flash.
G10Limits machine(std::uint32_t frames, std::uint32_t host_blocks) {
  G10Limits limits;
  limits.plan.block_bytes = kBlock;
  limits.plan.frames = frames;
  limits.plan.host_blocks = host_blocks;
  limits.plan.host_in_ns = kMs;
  limits.plan.flash_in_ns = 4 * kMs;
  return limits;
}

// Activations of `sizes` blocks made one after the other and used in reverse, launches of `ns`.
Program there_and_back(std::initializer_list<std::uint32_t> sizes, std::uint64_t ns) {
  Program program;
  std::vector<std::uint64_t> made;
  for (const std::uint32_t blocks : sizes) {
    made.push_back(program.allocate(blocks));
    program.launch(ns, {made.back()});
  }
  while (!made.empty()) {
    program.launch(ns, {made.back()});
    program.free(made.back());
    made.pop_back();
  }
  return program;
}

TEST(G10Plan, WhatFitsStays) {
  const Program program = there_and_back({10, 10, 10}, 1000 * kMs);
  EXPECT_TRUE(make_g10_plan(program.recording(), machine(40, 100)).absences.empty());
}

TEST(G10Plan, SendsWhatSavesMostToFlashAndBringsItBackInTime) {
  const Program program = there_and_back({10, 10, 10, 10}, 1000 * kMs);
  const Plan plan = make_g10_plan(program.recording(), machine(36, 100));
  ASSERT_EQ(plan.absences.size(), 1u);
  const TensorAbsence& absence = plan.absences.front();
  EXPECT_EQ(program.serial_of(absence), 1u);  // idle for longest
  EXPECT_EQ(absence.tier, Tier::kFlash);
  EXPECT_EQ(absence.after, 1u);
  EXPECT_EQ(plan.by_use[absence.use], 0u);
  EXPECT_GT(absence.return_from, absence.after);
  EXPECT_LT(absence.return_from, absence.before);
}

TEST(G10Plan, TakesHostMemoryWhereFlashIsFull) {
  // Each tensor keeps flash busy for longer than the next one takes.
  const Program program = there_and_back({20, 20, 20, 20, 20}, 60 * kMs);
  const Plan with_host = make_g10_plan(program.recording(), machine(50, 100));
  std::map<Tier, int> tiers;
  for (const TensorAbsence& absence : with_host.absences) ++tiers[absence.tier];
  EXPECT_GE(tiers[Tier::kFlash], 1);
  EXPECT_GE(tiers[Tier::kHost], 1);
  const Plan without = make_g10_plan(program.recording(), machine(50, 0));
  for (const TensorAbsence& absence : without.absences) EXPECT_EQ(absence.tier, Tier::kFlash);
  EXPECT_LT(without.absences.size(), with_host.absences.size());
}

TEST(G10Plan, LeavesWhatIsIdleForTooShortATime) {
  const Program program = there_and_back({20, 20, 20}, kMs);
  EXPECT_TRUE(make_g10_plan(program.recording(), machine(41, 100)).absences.empty());
}

TEST(G10Plan, IsTheSameTwice) {
  const Program program = there_and_back({7, 20, 13, 20, 5, 11}, 100 * kMs);
  const Plan first = make_g10_plan(program.recording(), machine(40, 20));
  const Plan second = make_g10_plan(program.recording(), machine(40, 20));
  EXPECT_EQ(first.by_use, second.by_use);
  ASSERT_EQ(first.absences.size(), second.absences.size());
  for (std::size_t i = 0; i < first.absences.size(); ++i) {
    EXPECT_EQ(first.absences[i].return_from, second.absences[i].return_from);
  }
}

// Drives a policy through iterations of the same program, with a page table whose states the test sets.
class Machine {
 public:
  Machine(Policy& policy, std::uint32_t blocks, std::uint32_t frames)
      : policy_(policy), table_(blocks, frames, blocks) {
    policy_.set_pace({.host_blocks = blocks, .host_in_ns = 1e6, .flash_in_ns = 4e6});
    policy_.budget(kBlock, frames);
  }
  void allocate(std::uint64_t serial, BlockRange blocks) { policy_.allocated(serial, blocks.count * kBlock, blocks); }
  void launch(std::uint64_t op, std::uint64_t serial, BlockRange blocks) {
    const Touch touch{serial, blocks.count * kBlock, blocks};
    policy_.launched(op, std::span(&touch, 1));
    policy_.ran(10 * kMs);
  }
  void put_on_host(BlockIndex block, std::uint32_t extent) {
    static_cast<void>(table_.become(block, BlockState::kResident, FrameIndex(0)));
    static_cast<void>(table_.become(block, BlockState::kEvicting, FrameIndex(0)));
    table_[block].extent = ExtentIndex(extent);
    static_cast<void>(table_.become(block, BlockState::kOnFlash));
  }
  PageTable& table() { return table_; }

 private:
  Policy& policy_;
  PageTable table_;
};

// Twelve weights of a block each, used in order.
void one_iteration(Machine& machine) {
  for (std::uint32_t i = 0; i < 12; ++i) machine.launch(i, i + 1, {BlockIndex(i), 1});
}

TEST(DeepUm, NamesTheBlocksOfTheNextEightLaunches) {
  DeepUm policy;
  Machine machine(policy, 16, 16);
  for (std::uint32_t i = 0; i < 12; ++i) machine.allocate(i + 1, {BlockIndex(i), 1});
  one_iteration(machine);
  EXPECT_FALSE(policy.ahead(machine.table(), Tier::kHost).block.valid()) << "nothing has been learned yet";
  policy.step();
  one_iteration(machine);
  policy.step();
  machine.launch(0, 1, {BlockIndex(0), 1});
  for (const std::uint32_t block : {11u, 9u, 5u}) machine.put_on_host(BlockIndex(block), block);
  // Launches 1 to 8 are in the window.
  const auto next = policy.ahead(machine.table(), Tier::kHost);
  EXPECT_EQ(next.block, BlockIndex(5));
  EXPECT_FALSE(policy.ahead(machine.table(), Tier::kFlash).block.valid()) << "it is not on flash";
  machine.table()[BlockIndex(5)].queue = 1;
  EXPECT_FALSE(policy.ahead(machine.table(), Tier::kHost).block.valid());
  machine.launch(1, 2, {BlockIndex(1), 1});
  EXPECT_EQ(policy.ahead(machine.table(), Tier::kHost).block, BlockIndex(9));
}

TEST(DeepUm, OutsideTheWindowTheFirstToComeIsWorthLeast) {
  DeepUm policy;
  Machine machine(policy, 16, 16);
  for (std::uint32_t i = 0; i < 12; ++i) machine.allocate(i + 1, {BlockIndex(i), 1});
  for (int i = 0; i < 2; ++i) {
    one_iteration(machine);
    policy.step();
  }
  for (const std::uint32_t block : {11u, 3u, 10u}) policy.arrived(BlockIndex(block));
  machine.launch(0, 1, {BlockIndex(0), 1});
  const auto worth = [&](std::uint32_t block) { return policy.keep(BlockIndex(block), Block{}); };
  EXPECT_LT(worth(11), worth(10));
  EXPECT_LT(worth(10), worth(3)) << "in the window";
}

}  // namespace
}  // namespace ebb
