// When a fault is given up on: after its own time, and never while help comes.
#include "runtime/pace/starvation_clock.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kLimit = 100;
constexpr BlockIndex kNone = BlockIndex::none();

TEST(StarvationClock, GivesUpAfterTheLimit) {
  StarvationClock clock(kLimit);
  EXPECT_FALSE(clock.over(1000, BlockIndex(1), false));
  EXPECT_FALSE(clock.over(1000 + kLimit, BlockIndex(1), false));
  EXPECT_TRUE(clock.over(1001 + kLimit, BlockIndex(1), false));
}

TEST(StarvationClock, HelpThatComesStartsItAnew) {
  StarvationClock clock(kLimit);
  EXPECT_FALSE(clock.over(1000, BlockIndex(1), false));
  EXPECT_FALSE(clock.over(5000, BlockIndex(1), true));
  EXPECT_FALSE(clock.over(5001, BlockIndex(1), false));
  EXPECT_TRUE(clock.over(5002 + kLimit, BlockIndex(1), false));
}

TEST(StarvationClock, EachBlockHasItsOwnTime) {
  StarvationClock clock(kLimit);
  EXPECT_FALSE(clock.over(1000, BlockIndex(1), false));
  EXPECT_FALSE(clock.over(5000, BlockIndex(2), false));
  EXPECT_FALSE(clock.over(5001, kNone, false));
  EXPECT_FALSE(clock.over(9000, BlockIndex(2), false));
  clock.end();  // served, which nobody has looked at the clock for
  EXPECT_FALSE(clock.over(9001 + kLimit, BlockIndex(2), false));
}

}  // namespace
}  // namespace ebb
