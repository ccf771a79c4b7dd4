// KernelTimes on a device whose clock the test sets: which launches are measured, what is known of their kind, and that
// no event is lost.
#include "runtime/pace/kernel_times.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "timed_device.h"

namespace ebb {
namespace {

using Kind = KernelTimes::Kind;

constexpr Kind kKind = 7;
constexpr TimedDevice::Costs kCosts{.record = 10, .query = 10};

class KernelTimesTest : public testing::Test {
 protected:
  void SetUp() override {
    device_.stop_clock();
    times_.emplace(device_);
  }
  void TearDown() override {
    times_.reset();
    EXPECT_EQ(device_.live_events(), 0u);
  }
  // A launch whose kernel takes so long; whether it is measured.
  bool launch(Kind kind, std::uint64_t ns) {
    const KernelTimes::Sample sample = times_->begin(kind, &stream_);
    device_.run(&stream_, ns);
    times_->end(sample, &stream_);
    return sample.from != nullptr;
  }
  std::optional<std::uint64_t> known(Kind kind) const {
    std::uint64_t ns = 0;
    return times_->known(kind, ns) ? std::optional(ns) : std::nullopt;
  }
  void finish() {
    device_.pass(1'000'000'000);
    times_->collect();
  }

  TimedDevice device_{64 * 1024, 4, 64 * 1024, kCosts};
  std::uint64_t stream_ = 0;
  std::optional<KernelTimes> times_;
};

TEST_F(KernelTimesTest, NothingIsKnownBeforeAKernelHasEnded) {
  EXPECT_FALSE(known(kKind).has_value());
  launch(kKind, 500'000);
  times_->collect();
  EXPECT_FALSE(known(kKind).has_value());
  device_.pass(499'000);
  times_->collect();
  EXPECT_FALSE(known(kKind).has_value());
  device_.pass(1'000);
  times_->collect();
  ASSERT_TRUE(known(kKind).has_value());
  EXPECT_NEAR(static_cast<double>(*known(kKind)), 500'000, 2 * kCosts.record);
}

TEST_F(KernelTimesTest, TheShortestOfAKindCounts) {
  stream_ = ~std::uint64_t{0} / 2;  // the host is ahead: kernels follow each other at once
  launch(kKind, 3'000);
  launch(kKind, 1'000);
  launch(kKind, 2'000);
  launch(kKind + 1, 50);
  device_.pass(stream_);
  times_->collect();
  EXPECT_EQ(known(kKind), 1'000u);
  EXPECT_EQ(known(kKind + 1), 50u);
  EXPECT_FALSE(known(kKind + 2).has_value());
}

TEST_F(KernelTimesTest, WhatAnOperatorDoesToMoreBytesIsAnotherKind) {
  EXPECT_EQ(KernelTimes::kind_of(3, 4096), KernelTimes::kind_of(3, 4096));
  EXPECT_NE(KernelTimes::kind_of(3, 4096), KernelTimes::kind_of(3, 8192));
  EXPECT_NE(KernelTimes::kind_of(3, 4096), KernelTimes::kind_of(4, 4096));
}

TEST_F(KernelTimesTest, TheFirstFourAreMeasuredAndThenOneOfSixtyFour) {
  std::vector<int> measured;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t before = device_.calls().recorded;
    if (launch(kKind, 100)) measured.push_back(i);
    EXPECT_EQ(device_.calls().recorded - before, measured.empty() || measured.back() != i ? 0u : 2u) << i;
    finish();
  }
  EXPECT_EQ(measured, (std::vector<int>{0, 1, 2, 3, 64, 128, 192}));
  EXPECT_TRUE(launch(kKind + 1, 100));  // each kind by itself
}

TEST_F(KernelTimesTest, EventsAreUsedAgain) {
  for (Kind kind = 0; kind < 50; ++kind) {
    ASSERT_TRUE(launch(kind, 100));
    finish();
    EXPECT_EQ(known(kind), 100u + kCosts.record);
    EXPECT_EQ(device_.live_events(), 2u);
  }
  times_->drop(times_->begin(50, &stream_));  // a launch that came to nothing
  EXPECT_EQ(device_.live_events(), 2u);
  launch(51, 100);
  EXPECT_EQ(device_.live_events(), 2u);  // and are destroyed also where a kernel has not ended: TearDown
}

TEST_F(KernelTimesTest, AHostFarAheadMeasuresNoMore) {
  std::uint64_t measured = 0;
  for (Kind kind = 0; kind < 1'000; ++kind) measured += launch(kind, 1'000'000) ? 1 : 0;
  EXPECT_EQ(measured, 256u);
  EXPECT_EQ(device_.live_events(), 2 * measured);
  finish();
  EXPECT_TRUE(launch(2'000, 100));
  EXPECT_EQ(device_.live_events(), 2 * measured);
}

TEST_F(KernelTimesTest, ALostDeviceEndsItSilently) {
  launch(kKind, 100);
  finish();
  const std::optional<std::uint64_t> before = known(kKind);
  ASSERT_TRUE(before.has_value());
  launch(kKind, 1);
  const KernelTimes::Sample open = times_->begin(kKind, &stream_);
  ASSERT_NE(open.from, nullptr);
  device_.lose("the GPU is gone");
  const std::uint64_t asked = device_.calls().timed;
  times_->end(open, &stream_);
  EXPECT_FALSE(launch(kKind, 1));
  EXPECT_FALSE(launch(kKind + 1, 1));
  finish();
  EXPECT_EQ(device_.calls().timed, asked);
  EXPECT_EQ(known(kKind), before);
  EXPECT_FALSE(known(kKind + 1).has_value());
}

TEST_F(KernelTimesTest, WithoutTimersNothingIsMeasured) {
  device_.lose("the GPU has never been there");
  EXPECT_FALSE(launch(kKind, 100));
  EXPECT_EQ(device_.live_events(), 0u);
}

TEST(KernelTimesInAChild, NothingIsGivenBack) {
  TimedDevice device(64 * 1024, 4, 64 * 1024, kCosts);
  std::uint64_t stream = 0;
  {
    KernelTimes times(device);
    times.end(times.begin(kKind, &stream), &stream);
    times.drop(times.begin(kKind, &stream));
    times.forget();
  }
  EXPECT_EQ(device.live_events(), 4u);
}

}  // namespace
}  // namespace ebb
