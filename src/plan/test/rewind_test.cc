// Going back through what was done: when it is believed, and what comes next.
#include "plan/planner/rewind.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb {
namespace {

// A forward pass over `layers` layers of eight launches each, of which the last makes a tensor of two blocks.
class Pass {
 public:
  static constexpr std::uint32_t kLaunches = 8;

  explicit Pass(std::uint32_t layers) : table_(2 * layers + 2, 8) {
    recording_.begin(1, 1);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (std::uint32_t i = 1; i < kLaunches; ++i) recording_.add_launch(1, {}, {});
      const std::uint64_t tensor = layer + 1;
      recording_.add_allocation(tensor, 2);
      const Touch touch{tensor, 2, blocks_of(tensor)};
      recording_.add_launch(1, std::vector{touch}, std::vector{touch.blocks.first});
      made_at_.push_back(recording_.size() - 1);
      for (BlockIndex i = touch.blocks.first; i != touch.blocks.end(); i = i.next()) {
        table_[i].state = BlockState::kOnFlash;
        table_[i].last_use = recording_.size();
      }
    }
  }
  static BlockRange blocks_of(std::uint64_t tensor) { return {BlockIndex(static_cast<std::uint32_t>(2 * tensor)), 2}; }
  Recording::Position made_at(std::uint64_t tensor) const { return made_at_[tensor - 1]; }
  Recording::Position now() const { return recording_.size(); }
  Policy::Ahead ahead(Rewind& rewind) const {
    return rewind.next(table_, recording_, [&](const Recording::Use& use) {
      return blocks_of(recording_.reference(use.reference).serial);
    });
  }
  BlockIndex next(Rewind& rewind) const { return ahead(rewind).block; }
  void use(BlockIndex block, std::uint64_t stamp) { table_[block].last_use = stamp; }
  void arrive(BlockIndex block) { table_[block].state = BlockState::kResident; }

 private:
  PageTable table_;
  Recording recording_;
  std::vector<Recording::Position> made_at_;
};

constexpr std::uint32_t kLayers = 40;

TEST(Rewind, FetchesWhatWasMadeBeforeWhatIsUsedNow) {
  Pass pass(kLayers);
  Rewind rewind;
  EXPECT_FALSE(pass.next(rewind).valid());
  std::uint64_t tensor = kLayers - 5;  // the last ones were used a moment ago
  for (int i = 0; i < 6; ++i) rewind.used(pass.made_at(tensor--), pass.now());
  ASSERT_TRUE(rewind.going_back());
  // What the latest launch used comes with it; then the others, the most recent first.
  for (std::uint64_t expected = tensor + 1; expected > tensor - 3; --expected) {
    for (int i = 0; i < 2; ++i) {
      const BlockIndex block = pass.next(rewind);
      EXPECT_EQ(block, BlockIndex(Pass::blocks_of(expected).first.value() + static_cast<std::uint32_t>(i)));
      pass.arrive(block);
    }
  }
}

TEST(Rewind, WhatIsNamedLaterIsWorthNoMore) {
  Pass pass(kLayers);
  Rewind rewind;
  std::uint64_t tensor = kLayers - 5;
  for (int i = 0; i < 6; ++i) rewind.used(pass.made_at(tensor--), pass.now());
  // Its second block is a neighbour's, too, which has used it a moment ago.
  const BlockRange blocks = Pass::blocks_of(tensor + 1);
  pass.use(blocks.first.next(), pass.now());
  const Policy::Ahead first = pass.ahead(rewind);
  EXPECT_EQ(first.block, blocks.first);
  pass.arrive(first.block);
  const Policy::Ahead second = pass.ahead(rewind);
  EXPECT_EQ(second.block, blocks.first.next());
  EXPECT_LE(second.worth, first.worth);
  // Further back, the program needs other things first.
  rewind.used(pass.made_at(tensor), pass.now());
  pass.arrive(second.block);
  EXPECT_EQ(pass.ahead(rewind).worth, pass.made_at(tensor) + 1);
}

TEST(Rewind, LooksOnlySoFar) {
  Pass pass(200);
  Rewind rewind;
  std::uint64_t tensor = 190;
  for (int i = 0; i < 6; ++i) rewind.used(pass.made_at(tensor--), pass.now());
  std::uint32_t fetched = 0;
  for (BlockIndex block = pass.next(rewind); block.valid(); block = pass.next(rewind), ++fetched) pass.arrive(block);
  EXPECT_GT(fetched, 20u);
  EXPECT_LT(fetched, 200u);
}

TEST(Rewind, AProgramThatGoesForwardIsNotFollowed) {
  Pass pass(kLayers);
  Rewind rewind;
  for (std::uint64_t tensor = 1; tensor < kLayers - 5; ++tensor) {
    rewind.used(pass.made_at(tensor), pass.now() + 8 * static_cast<Recording::Position>(tensor));
    EXPECT_FALSE(rewind.going_back() && pass.next(rewind).valid()) << tensor;
  }
}

TEST(Rewind, EndsWhenTheProgramDoesSomethingElse) {
  Pass pass(kLayers);
  Rewind rewind;
  std::uint64_t tensor = kLayers - 5;
  for (int i = 0; i < 6; ++i) rewind.used(pass.made_at(tensor--), pass.now());
  for (int i = 0; i < 3; ++i) rewind.used(pass.made_at(1), pass.now());
  EXPECT_TRUE(rewind.going_back());
  rewind.used(pass.made_at(1), pass.now());
  EXPECT_FALSE(rewind.going_back());
  rewind.begin();
  EXPECT_FALSE(pass.next(rewind).valid());
}

}  // namespace
}  // namespace ebb
