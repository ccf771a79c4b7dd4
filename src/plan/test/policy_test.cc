// The list of policies, and the two without foresight.
#include "plan/policy.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ebb
