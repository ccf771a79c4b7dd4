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

// Eight that begin together share the device, and end nearly together.
TEST(FlashPace, WhatEndsTogetherWasServedBefore) {
  FlashPace pace;
  std::uint64_t now = 0, read = 0;
  for (int i = 0; i < 100; ++i) {
    pace.observe(now, {8, 0, read, 0});
    now += 7'993;
    for (std::uint32_t left = 7;; --left) {
      pace.observe(now++, {left, 0, ++read, 0});
      if (left == 0) break;
    }
  }
  EXPECT_NEAR(pace.in_ns(), 1000, 5);
}

// Reads of a thousand each, beside writes of as much half of the time, in stretches shorter than a request.
TEST(FlashPace, StretchesShorterThanARequest) {
  FlashPace pace;
  std::uint64_t now = 0, read = 0, written = 0;
  double reading = 0, writing = 0;  // what the device has done of the next
  for (int i = 0; i < 40'000; ++i) {
    const bool both = i / 3 % 2 == 0;
    pace.observe(now, {8, both ? 8U : 0U, read, written});
    now += 1000;
    reading += both ? 0.5 : 1;
    writing += both ? 0.5 : 0;
    for (; reading >= 8; reading -= 8) read += 8;
    for (; both && writing >= 8; writing -= 8) written += 8;
  }
  EXPECT_NEAR(pace.in_ns(), 1000, 100);
  EXPECT_NEAR(pace.both_ns(), 1000, 100);
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
