// What is known of flash from what passed it.
#include "runtime/pace/flash_pace.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(FlashPace, NothingIsKnownAtFirst) {
  FlashPace pace;
  pace.observe(0, {1, 1, 0, 0});
  pace.observe(1000, {0, 0, 1, 1});
  EXPECT_EQ(pace.in_ns(), 0);
  EXPECT_EQ(pace.out_ns(), 0);
  EXPECT_EQ(pace.both_ns(), 0);
}

TEST(FlashPace, EachWayAloneAndBothTogether) {
  FlashPace pace;
  pace.observe(0, {8, 0, 0, 0});
  pace.observe(100'000, {0, 8, 100, 0});      // a hundred reads
  pace.observe(300'000, {0, 0, 100, 100});    // a hundred writes
  pace.observe(900'000, {8, 8, 100, 100});    // nothing
  pace.observe(1'200'000, {0, 0, 150, 150});  // fifty of each
  EXPECT_DOUBLE_EQ(pace.in_ns(), 1000);
  EXPECT_DOUBLE_EQ(pace.out_ns(), 2000);
  EXPECT_DOUBLE_EQ(pace.both_ns(), 3000);
}

TEST(FlashPace, ReadsThatWereNeverAloneAreAsFastAsWithWrites) {
  FlashPace pace;
  pace.observe(0, {8, 8, 0, 0});
  pace.observe(300'000, {0, 0, 50, 50});
  EXPECT_DOUBLE_EQ(pace.in_ns(), 3000);
}

TEST(FlashPace, WhatLeavesUnchangedIsNoWrite) {
  FlashPace pace;
  pace.observe(0, {8, 8, 0, 0});
  pace.observe(300'000, {8, 0, 100, 0});
  pace.observe(400'000, {0, 0, 200, 0});
  EXPECT_DOUBLE_EQ(pace.in_ns(), 2000);
  EXPECT_EQ(pace.both_ns(), 0);
}

TEST(FlashPace, AFewRequestsCountOnlyWhileNothingBetterIsKnown) {
  FlashPace pace;
  pace.observe(0, {1, 0, 0, 0});
  pace.observe(200'000, {0, 0, 100, 0});
  EXPECT_DOUBLE_EQ(pace.in_ns(), 2000);
  pace.observe(300'000, {8, 0, 100, 0});
  pace.observe(400'000, {0, 0, 200, 0});
  EXPECT_DOUBLE_EQ(pace.in_ns(), 1000);
}

TEST(FlashPace, OldObservationsCountLess) {
  FlashPace pace;
  std::uint64_t now = 0;
  std::uint64_t read = 0;
  for (const std::uint64_t ns : {1000, 3000}) {
    for (int i = 0; i < 1000; ++i) {
      pace.observe(now, {1, 0, read, 0});
      now += 10 * ns;
      read += 10;
    }
  }
  EXPECT_GT(pace.in_ns(), 2500);
  EXPECT_LT(pace.in_ns(), 3000);
}

}  // namespace
}  // namespace ebb
