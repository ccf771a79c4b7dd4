// The lower bound on traces whose best schedule is known by hand, and what must hold on random ones.
#include "bound/lower_bound.h"

#include <gtest/gtest.h>

#include "bound/test/small_traces.h"

namespace ebb {
namespace {

constexpr double kTolerance = 1e-5;  // seconds

// 10 GB made by the first launch and read by the last; in between one that needs 10 GB for itself.
Trace around_a_workspace(int reads_before = 0) {
  Trace trace;
  const auto kept = add_tensor(trace, 10 * kGB);
  const auto workspace = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {}, {kept});
  for (int i = 0; i < reads_before; ++i) add_launch(trace, kSecond, {kept}, {});
  add_launch(trace, kSecond, {}, {workspace});
  add_launch(trace, kSecond, {kept}, {});
  return trace;
}

double stall(const Trace& trace, const Machine& on, Copies copies, std::uint32_t resolution = 500) {
  const Bound bound = lower_bound(analyse(trace), on, {copies, resolution});
  EXPECT_TRUE(bound.outcome == Bound::Outcome::kBounded || bound.outcome == Bound::Outcome::kFits);
  return static_cast<double>(bound.stall_ns) / 1e9;
}

TEST(LowerBound, IsTheKernelTimeIfAllFits) {
  const Bound bound = lower_bound(analyse(around_a_workspace()), machine(20, 0, 1));
  EXPECT_EQ(bound.outcome, Bound::Outcome::kFits);
  EXPECT_EQ(bound.total_ns(), 3 * kSecond);
  EXPECT_EQ(bound.must_leave_bytes, 0u);
}

TEST(LowerBound, CountsBothWays) {
  // 5 GB must be away during the workspace's launch: they leave before it and return after it.
  const Bound bound = lower_bound(analyse(around_a_workspace()), machine(15, 100, 10));
  EXPECT_EQ(bound.must_leave_bytes, 5 * kGB);
  EXPECT_NEAR(static_cast<double>(bound.stall_ns) / 1e9, 1.0, kTolerance);
  EXPECT_NEAR(stall(around_a_workspace(), machine(15, 100, 10), Copies::kWritten), 1.0, kTolerance);
  EXPECT_GT(bound.gain_ns[static_cast<std::size_t>(bound.binding)], 0);
}

TEST(LowerBound, FlashIsSlower) {
  EXPECT_NEAR(stall(around_a_workspace(), machine(15, 0, 10, 5, 2.5), Copies::kWritten), 1.0 + 2.0, kTolerance);
}

TEST(LowerBound, FlashPassesTheLink) {
  EXPECT_NEAR(stall(around_a_workspace(), machine(15, 0, 1, 5, 2.5), Copies::kWritten), 5.0 + 5.0, kTolerance);
}

TEST(LowerBound, OnlyWhatTheHostCannotTakeGoesToFlash) {
  const Machine on = machine(15, 2, 10, 5, 2.5);
  EXPECT_EQ(lower_bound(analyse(around_a_workspace()), on).must_leave_host_bytes, 3 * kGB);
  EXPECT_NEAR(stall(around_a_workspace(), on, Copies::kWritten), 3 / 5.0 + 3 / 2.5, kTolerance);
}

TEST(LowerBound, CleanCopiesAreWrittenAhead) {
  // A launch of a second only reads the tensor, long enough to write it out meanwhile.
  const Machine on = machine(15, 100, 10);
  EXPECT_NEAR(stall(around_a_workspace(1), on, Copies::kWritten), 1.0, kTolerance);
  EXPECT_NEAR(stall(around_a_workspace(1), on, Copies::kKeptClean), 0.5, kTolerance);
}

TEST(LowerBound, WhatIsNeverWrittenLeavesForNothing) {
  Trace trace;
  const auto weight = add_tensor(trace, 10 * kGB, true);
  const auto workspace = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {weight}, {});
  add_launch(trace, kSecond, {}, {workspace});
  add_launch(trace, kSecond, {weight}, {});
  EXPECT_NEAR(stall(trace, machine(15, 100, 10), Copies::kWritten), 1.0, kTolerance);
  EXPECT_NEAR(stall(trace, machine(15, 100, 10), Copies::kKeptClean), 0.5, kTolerance);
}

TEST(LowerBound, DeadContentLeavesForNothing) {
  Trace trace;
  const auto reused = add_tensor(trace, 10 * kGB);
  const auto workspace = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {}, {reused});
  add_launch(trace, kSecond, {}, {workspace});
  add_launch(trace, kSecond, {}, {reused});
  EXPECT_EQ(lower_bound(analyse(trace), machine(10, 0, 10)).outcome, Bound::Outcome::kFits);
}

// A gradient that the optimizer has used and that is freed at the end of the iteration: who may not lose it writes it
// before the workspace takes its place, but never brings it back.
TEST(LowerBound, WhatNobodyFreedYetHasToBeWritten) {
  Trace trace;
  const auto gradient = add_tensor(trace, 10 * kGB);
  const auto workspace = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {}, {gradient});
  add_launch(trace, kSecond, {}, {workspace});
  trace.tensors[gradient].freed_before = 2;
  const Machine on = machine(15, 0, 10, 5, 2.5);
  EXPECT_EQ(lower_bound(analyse(trace), on).stall_ns, 0u);
  const Bound bound = lower_bound(analyse(trace, 1, Dead::kStays), on);
  EXPECT_NEAR(static_cast<double>(bound.stall_ns) / 1e9, 5 / 5.0, kTolerance);
}

TEST(LowerBound, WrapAroundPeriodsCount) {
  // The optimizer's state is used once an iteration; a long launch later hides the way out and back.
  Trace trace;
  const auto state = add_tensor(trace, 10 * kGB, true);
  const auto workspace = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {}, {workspace});
  add_launch(trace, kSecond, {state}, {state});
  EXPECT_NEAR(stall(trace, machine(15, 100, 10), Copies::kWritten), 1.0, kTolerance);
  EXPECT_NEAR(stall(trace, machine(15, 100, 10), Copies::kKeptClean), 1.0, kTolerance);
}

TEST(LowerBound, SaysWhatCannotRun) {
  const Vitality vitality = analyse(around_a_workspace());
  const Bound streams = lower_bound(vitality, machine(9, 100, 10, 1, 1));
  EXPECT_EQ(streams.outcome, Bound::Outcome::kStreams);
  EXPECT_EQ(streams.streaming_launch, 0u);
  EXPECT_EQ(lower_bound(vitality, machine(15, 4, 10)).outcome, Bound::Outcome::kNoRoom);
  EXPECT_EQ(lower_bound(vitality, machine(15, 4, 0, 1, 1)).outcome, Bound::Outcome::kNoRoom) << "no link, no tier";
}

TEST(LowerBound, OfNothingIsNothing) { EXPECT_EQ(lower_bound(analyse(Trace{}), machine(1, 0, 1)).total_ns(), 0u); }

TEST(LowerBound, OnRandomTracesIsMonotoneAndRepeats) {
  int tight = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Rng rng(seed);
    const Trace trace = random_trace(rng);
    const Vitality vitality = analyse(trace);
    if (vitality.peak_vital_bytes <= vitality.working_set_bytes_max) continue;
    Machine on = machine(0, rng.below(3) * 5, 2, 0.5 + static_cast<double>(rng.below(3)), 1);
    const std::uint64_t room = (vitality.peak_vital_bytes - vitality.working_set_bytes_max) / kGB;
    on.device_bytes = vitality.working_set_bytes_max + rng.below(room) * kGB;
    for (const Copies copies : {Copies::kWritten, Copies::kKeptClean}) {
      const auto bound = [&](const Machine& with, std::uint32_t resolution = 500) {
        return stall(trace, with, copies, resolution);
      };
      const double least = bound(on);
      tight += least > 0 ? 1 : 0;
      EXPECT_EQ(bound(on), least) << "seed " << seed;
      EXPECT_LE(bound(on, 3), least + kTolerance) << "a coarser cut stays a bound, seed " << seed;
      Machine more = on;
      more.device_bytes += kGB;
      EXPECT_LE(bound(more), least + kTolerance) << "seed " << seed;
      more = on;
      more.host_bytes += 3 * kGB;
      EXPECT_LE(bound(more), least + kTolerance) << "seed " << seed;
      Machine less = on;
      less.flash_total_bps = (on.flash_read_bps + on.flash_write_bps) * 2 / 3;
      EXPECT_GE(bound(less) + kTolerance, least) << "seed " << seed;
      less.flash_total_bps = on.flash_read_bps + on.flash_write_bps;
      EXPECT_NEAR(bound(less), least, kTolerance) << "no limit at all, seed " << seed;
      for (double Machine::*lane : {&Machine::device_link_bps, &Machine::flash_read_bps, &Machine::flash_write_bps}) {
        more = on;
        more.*lane *= 2;
        EXPECT_LE(bound(more), least + kTolerance) << "seed " << seed;
      }
    }
    EXPECT_LE(stall(trace, on, Copies::kKeptClean), stall(trace, on, Copies::kWritten) + kTolerance);
  }
  EXPECT_GT(tight, 50);
}

}  // namespace
}  // namespace ebb
