// SecondUse: which blocks used at random are used again before the iteration is over.
#include "plan/planner/second_use.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr BlockRange block(std::uint32_t index) { return {BlockIndex(index), 1}; }
constexpr std::uint64_t kLookup = 11, kUpdate = 12, kMask = 13;

TEST(SecondUse, WhatIsLookedUpIsUpdated) {
  SecondUse uses;
  EXPECT_FALSE(uses.comes(BlockIndex(3), 0));
  for (std::uint64_t iteration = 0; iteration < 3; ++iteration) {
    const auto first = static_cast<std::uint32_t>(10 * iteration);  // other rows each time
    uses.used(kLookup, {BlockIndex(first), 5}, iteration);
    if (iteration > 0) {
      EXPECT_TRUE(uses.comes(BlockIndex(first + 4), iteration));
    }
    uses.used(kUpdate, {BlockIndex(first), 5}, iteration);
    EXPECT_FALSE(uses.comes(BlockIndex(first + 4), iteration)) << "it is over for this iteration";
  }
  uses.used(kLookup, block(40), 3);
  EXPECT_TRUE(uses.comes(BlockIndex(40), 3));
  EXPECT_FALSE(uses.comes(BlockIndex(40), 4)) << "that was the iteration before";
}

TEST(SecondUse, TheSameOperatorOnOtherTablesIsTheEndThere) {
  SecondUse uses;
  // A parameter is looked up and added to; a sum of squares is added to and then read.
  for (std::uint64_t iteration = 0; iteration < 4; ++iteration) {
    uses.used(kLookup, block(1), iteration);
    uses.used(kUpdate, block(100), iteration);
    if (iteration > 0) {
      EXPECT_TRUE(uses.comes(BlockIndex(100), iteration));
    }
    uses.used(kMask, block(100), iteration);
    uses.used(kUpdate, block(1), iteration);
    EXPECT_FALSE(uses.comes(BlockIndex(1), iteration));
    EXPECT_FALSE(uses.comes(BlockIndex(100), iteration));
  }
}

TEST(SecondUse, ChangesItsMind) {
  SecondUse uses;
  for (std::uint64_t iteration = 0; iteration < 50; ++iteration) {
    uses.used(kLookup, block(1), iteration);
    uses.used(kUpdate, block(1), iteration);
  }
  for (std::uint64_t iteration = 50; iteration < 120; ++iteration) uses.used(kLookup, block(1), iteration);
  EXPECT_FALSE(uses.comes(BlockIndex(1), 119));
}

}  // namespace
}  // namespace ebb
