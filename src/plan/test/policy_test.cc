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

}  // namespace
}  // namespace ebb
