// Tests of LaunchClock.
#include "runtime/pace/launch_clock.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(LaunchClock, TimeUntilTheEndWithoutWhatWasWaited) {
  LaunchClock clock;
  EXPECT_EQ(clock.end(50, 0), 0u) << "nothing has begun";
  clock.begin(100, 30);
  EXPECT_EQ(clock.end(180, 30), 80u);
  clock.begin(200, 30);
  EXPECT_EQ(clock.end(300, 90), 40u) << "it waited for 60 of 100";
}

TEST(LaunchClock, WhatHasEndedDoesNotGoOn) {
  LaunchClock clock;
  clock.begin(100, 0);
  EXPECT_EQ(clock.end(150, 0), 50u);
  EXPECT_EQ(clock.end(900, 0), 0u) << "time between iterations is nobody's";
}

TEST(LaunchClock, WaitsOfOtherThreadsAreNoNegativeTime) {
  LaunchClock clock;
  clock.begin(100, 0);
  EXPECT_EQ(clock.end(120, 50), 0u);
}

}  // namespace
}  // namespace ebb
