// What is fetched before anybody asks for it, as many at once as the policy says, and what is wanted back while others
// wait.
#include <gtest/gtest.h>

#include <deque>

#include "engine_fixture.h"

namespace ebb {
namespace {

using enum BlockState;

// Has named blocks fetched, so many at once.
class Guesses final : public Policy {
 public:
  std::string_view name() const override { return "guesses"; }
  bool listens() const override { return true; }
  Tier destination(BlockIndex) const override { return Tier::kFlash; }
  Ahead ahead(const PageTable& table, Tier) override {
    while (!named.empty() && table[named.front()].state != kOnFlash) named.pop_front();
    if (named.empty()) return {};
    Ahead next;
    next.block = named.front();
    if (at_once > 0) next.at_once = at_once;
    return next;
  }
  std::deque<BlockIndex> named;
  std::uint32_t at_once = 0;
};

class AheadTest : public EngineFixtureWith<Guesses> {
 protected:
  // Four blocks on flash, and frames for them.
  void make_with_four_away() {
    make(8, 16, {8, 0, 0});
    fill_first(12);
    for (std::uint32_t i = 4; i < 12; ++i) release(i);
    for (std::uint32_t i = 0; i < 4; ++i) {
      ASSERT_EQ(state(i), kOnFlash);
      own_->named.emplace_back(i);
    }
  }
};

TEST_F(AheadTest, AsManyAtOnceAsThePolicySays) {
  make_with_four_away();
  own_->at_once = 2;
  pump();
  EXPECT_EQ(table_->count(kFetching), 2u);
  take();
  complete();
  EXPECT_EQ(table_->count(kFetching), 2u) << "the next one comes when one has come";
  EXPECT_TRUE(here(0, 0));
  finish();
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(here(i, i));
}

TEST_F(AheadTest, OrAsTheLaneTakes) {
  make_with_four_away();
  pump();
  EXPECT_EQ(table_->count(kFetching), 4u);
  finish();
}

TEST_F(AheadTest, WhatIsWantedBackDoesNotTakeTheFrameThatOthersWaitFor) {
  make_full(2, 16);
  retain(2);
  fault(2);
  take();
  const std::uint32_t leaves = state(0) == kEvicting ? 0 : 1;
  want(leaves);
  EXPECT_TRUE(engine_->pending(BlockIndex(leaves)));
  complete();
  EXPECT_EQ(state(2), kResident);
  finish();
  EXPECT_TRUE(here(leaves, leaves)) << "and then it comes back";
}

}  // namespace
}  // namespace ebb
