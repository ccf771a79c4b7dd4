// The list of policies, and the two without foresight.
#include "plan/policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ebb {
namespace {

TEST(Policies, AreMadeByName) {
  for (const char* name : {"on_demand", "window", "foresight"}) {
    const auto policy = make_policy(name);
    ASSERT_NE(policy, nullptr) << name;
    EXPECT_EQ(policy->name(), name);
    EXPECT_EQ(policy->deviations(), 0u);
  }
  EXPECT_EQ(make_policy("lru"), nullptr);
  EXPECT_EQ(make_policy(""), nullptr);
}

TEST(Policies, OnlyOnDemandDoesNotListen) {
  EXPECT_FALSE(make_policy("on_demand")->listens());
  EXPECT_TRUE(make_policy("window")->listens());
  EXPECT_TRUE(make_policy("foresight")->listens());
}

TEST(Policies, WithoutForesightTheMostRecentlyUsedIsWorthMost) {
  Block older, newer;
  older.last_use = 3;
  newer.last_use = 4;
  for (const char* name : {"on_demand", "window"}) {
    const auto policy = make_policy(name);
    EXPECT_LT(policy->keep(BlockIndex(1), older), policy->keep(BlockIndex(0), newer)) << name;
    EXPECT_FALSE(policy->ahead(PageTable(4, 2), Tier::kFlash).block.valid()) << name;
  }
}

TEST(Policies, ForesightBeginsAsWindow) {
  const auto policy = make_policy("foresight");
  Block older, newer;
  older.last_use = 3;
  newer.last_use = 4;
  EXPECT_LT(policy->keep(BlockIndex(1), older), policy->keep(BlockIndex(0), newer));
  EXPECT_FALSE(policy->ahead(PageTable(4, 2), Tier::kFlash).block.valid());
}

// A loop over weights with room for some of them, and one in the opposite order.
class TwoLoops {
 public:
  static constexpr std::uint32_t kWeights = 20;
  TwoLoops() {
    Pace pace;
    pace.flash_in_ns = 1000;
    pace.flash_out_ns = 1000;
    policy_->set_pace(pace);
    policy_->budget(kBlock, 8);
    for (std::uint32_t i = 0; i < kWeights; ++i) policy_->allocated(i + 1, kBlock, blocks(i));
    for (std::uint32_t i = 0; i < kWeights; ++i) {
      for (const BlockState state : {BlockState::kResident, BlockState::kEvicting}) {
        static_cast<void>(table_.become(BlockIndex(i), state, FrameIndex(0)));
      }
      static_cast<void>(table_.become(BlockIndex(i), BlockState::kOnFlash));
    }
  }
  void launch(std::uint64_t op, std::uint32_t weight) {
    policy_->launched(op, std::vector<Touch>{{weight + 1, kBlock, blocks(weight), false}});
    policy_->ran(500);
  }
  void up() {
    for (std::uint32_t i = 0; i < kWeights; ++i) launch(1, i);
    policy_->step();
  }
  void down() {
    for (std::uint32_t i = 0; i < kWeights; ++i) launch(2, kWeights - 1 - i);
    policy_->step();
  }
  BlockIndex ahead() { return policy_->ahead(table_, Tier::kFlash).block; }

 private:
  static constexpr std::uint64_t kBlock = 1 << 21;
  static BlockRange blocks(std::uint32_t weight) { return {BlockIndex(weight), 1}; }

  std::unique_ptr<Policy> policy_ = make_policy("foresight");
  PageTable table_{kWeights, 8};
};

TEST(Policies, WhatAnotherPlanSentAwayComesWhenThisOneNeedsIt) {
  TwoLoops loops;
  for (std::uint32_t i = 0; i < 2; ++i) {
    loops.down();
    for (std::uint32_t k = 0; k < 3; ++k) loops.up();
  }
  loops.launch(2, TwoLoops::kWeights - 1);  // the one used last: all before it has just left, to come back much later
  EXPECT_EQ(loops.ahead(), BlockIndex(TwoLoops::kWeights - 2));
}

// A launch makes something that nobody uses until the end. It leaves once the launch is over.
TEST(Policies, WhatALaunchMakesLeavesAfterIt) {
  constexpr std::uint64_t kBlock = 1 << 21;
  constexpr std::uint32_t kWeights = 6, kIterations = 4;
  const auto policy = make_policy("foresight");
  policy->set_pace({.flash_in_ns = 1000, .flash_out_ns = 1000, .frames_in_transit = 1});
  policy->budget(kBlock, 5);
  PageTable table(kWeights + 1, kWeights + 1);
  const BlockIndex result(kWeights);
  table[result].state = BlockState::kResident;
  table[result].live = 1;
  table[result].last_use = 1;
  const auto weight = [](std::uint32_t i) { return BlockRange{BlockIndex(i), 1}; };
  for (std::uint32_t i = 0; i < kWeights; ++i) policy->allocated(i + 1, kBlock, weight(i));
  const auto launch = [&](std::uint64_t op, std::uint64_t tensor, BlockRange blocks) {
    policy->launched(op, std::vector<Touch>{{tensor, kBlock, blocks, false}});
    policy->ran(5000);
  };
  std::uint64_t made = kWeights + 1;
  BlockIndex during, after;
  for (std::uint32_t k = 0; k < kIterations; ++k, ++made) {
    launch(1, 1, weight(0));
    policy->allocated(made, kBlock, {result, 1});
    during = policy->behind(table, Tier::kFlash, 2);
    for (std::uint32_t i = 1; i < kWeights; ++i) {
      launch(1, i + 1, weight(i));
      if (i == 1) after = policy->behind(table, Tier::kFlash, 2);
    }
    launch(2, made, {result, 1});
    policy->freed(made);
    policy->step();
  }
  EXPECT_FALSE(during.valid());
  EXPECT_EQ(after, result);
}

}  // namespace
}  // namespace ebb
