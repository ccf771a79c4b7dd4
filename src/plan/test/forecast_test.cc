// Forecasts of small iterations whose time can be worked out by hand, and what holds for all.
#include "plan/planner/forecast.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

// An iteration of launches of 1000 ns, and 10 live blocks unless told otherwise. A block takes 100 ns either way.
class Iteration {
 public:
  explicit Iteration(std::size_t launches, double launch_ns = 1000) : live_(launches, 10) {
    for (std::size_t i = 0; i <= 2 * launches; ++i) start_ns_.push_back(static_cast<double>(i) * launch_ns);
  }
  Iteration& away(std::uint32_t blocks, Recording::Position after, std::uint64_t before, std::uint64_t return_from) {
    PieceAbsence absence;
    absence.blocks = absence.unwritten = blocks;
    absence.after = after;
    absence.before = before;
    absence.return_from = return_from;
    absences_.push_back(absence);
    return *this;
  }
  PieceAbsence& last() { return absences_.back(); }
  Iteration& cleaned(std::uint32_t blocks, Recording::Position after, std::uint64_t until) {
    Cleaning cleaning;
    cleaning.after = after;
    cleaning.until = until;
    cleaning.blocks = blocks;
    cleaning.leaves = absences_.back().after;
    cleaning.absence = static_cast<std::uint32_t>(absences_.size() - 1);
    cleanings_.push_back(cleaning);
    return *this;
  }
  void set_live(Recording::Position event, std::uint64_t blocks) { live_[event] = blocks; }
  double forecast(const PlanLimits& limits) const { return whole_forecast(limits).ns; }
  Forecast whole_forecast(const PlanLimits& limits) const {
    return ebb::forecast(start_ns_, live_, absences_, cleanings_, limits);
  }

 private:
  std::vector<double> start_ns_;
  std::vector<std::uint64_t> live_;
  std::vector<PieceAbsence> absences_;
  std::vector<Cleaning> cleanings_;
};

PlanLimits machine(std::uint32_t frames) {
  PlanLimits limits;
  limits.frames = frames;
  limits.flash_in_ns = 100;
  return limits;
}

TEST(Forecast, WithoutAbsencesItIsTheLaunches) { EXPECT_DOUBLE_EQ(Iteration(8).forecast(machine(10)), 8000); }

TEST(Forecast, WhatPassesWhileLaunchesRunCostsNothing) {
  // Away from 1 to 6, five blocks: 500 ns out, and 500 ns back during the launch at 5.
  EXPECT_DOUBLE_EQ(Iteration(8).away(5, 1, 6, 5).forecast(machine(10)), 8000);
}

TEST(Forecast, AFetchThatBeginsLateIsWaitedFor) {
  // Twenty blocks begin to return with the launch before: 1000 of 2000 ns remain.
  Iteration iteration(8);
  for (Recording::Position i = 0; i < 8; ++i) iteration.set_live(i, 20);
  EXPECT_DOUBLE_EQ(iteration.away(20, 1, 6, 5).forecast(machine(20)), 9000);
  // With the launch itself: all of it.
  Iteration later(8);
  for (Recording::Position i = 0; i < 8; ++i) later.set_live(i, 20);
  EXPECT_DOUBLE_EQ(later.away(20, 1, 6, 6).forecast(machine(20)), 10000);
}

TEST(Forecast, TellsWhatALaunchWaitsFor) {
  Iteration iteration(8);
  for (Recording::Position i = 0; i < 8; ++i) iteration.set_live(i, 25);
  iteration.away(20, 1, 6, 5).away(5, 1, 4, 3);
  const Forecast found = iteration.whole_forecast(machine(25));
  EXPECT_DOUBLE_EQ(found.waited_blocks, 10);  // 1000 ns
  EXPECT_EQ(found.urgent, (std::vector<bool>{true, false}));
  EXPECT_DOUBLE_EQ(Iteration(8).away(5, 1, 6, 5).whole_forecast(machine(10)).waited_blocks, 0);
}

TEST(Forecast, WhatIsMadeWaitsForFrames) {
  // From 2 on there are thirty blocks in twenty frames: the ten that leave after 1 are out at the end of the launch at
  // 2 at the earliest, and what the launch at 2 makes needs them.
  Iteration iteration(8);
  for (Recording::Position i = 2; i < 6; ++i) iteration.set_live(i, 20);
  EXPECT_DOUBLE_EQ(iteration.away(10, 1, 6, 6).forecast(machine(10)), 8000 + 1000 + 1000);
}

TEST(Forecast, WhatHasACopyLeavesAtOnce) {
  Iteration iteration(8);
  for (Recording::Position i = 2; i < 6; ++i) iteration.set_live(i, 20);
  iteration.away(10, 1, 6, 6).last().unwritten = 0;
  EXPECT_DOUBLE_EQ(iteration.forecast(machine(10)), 8000 + 1000);
}

TEST(Forecast, WhatIsCleanedWhileItStaysLeavesAtOnce) {
  Iteration iteration(8);
  for (Recording::Position i = 2; i < 6; ++i) iteration.set_live(i, 20);
  iteration.away(10, 1, 6, 6).cleaned(10, 6, 9);
  EXPECT_DOUBLE_EQ(iteration.forecast(machine(10)), 8000 + 1000);
}

TEST(Forecast, AFetchWaitsForAFrameThatAWriteFrees) {
  // Two groups of ten take turns in ten frames: each comes when the other has left.
  Iteration iteration(8);
  for (Recording::Position i = 0; i < 8; ++i) iteration.set_live(i, 20);
  iteration.away(10, 1, 6, 3).away(10, 5, 9, 7);
  const double ns = iteration.forecast(machine(10));
  EXPECT_GE(ns, 8000);
  EXPECT_LE(ns, 8000 + 4 * 1000);
}

TEST(Forecast, ReadsAndWritesOfFlashMayShareIt) {
  // Twenty blocks leave during the launches from 2 to 4 and return during 5 and 6.
  Iteration iteration(8);
  for (Recording::Position i = 0; i < 8; ++i) iteration.set_live(i, 20);
  iteration.away(20, 1, 7, 5);
  PlanLimits limits = machine(20);
  EXPECT_DOUBLE_EQ(iteration.forecast(limits), 8000);
  limits.flash_both_ns = 150;  // 3000 ns to leave, and as much to return
  EXPECT_DOUBLE_EQ(iteration.forecast(limits), 9000);
}

TEST(Forecast, AWriteMayTakeLongerThanARead) {
  Iteration iteration(8);
  for (Recording::Position i = 2; i < 6; ++i) iteration.set_live(i, 20);
  iteration.away(10, 1, 6, 6);
  PlanLimits limits = machine(10);
  limits.flash_out_ns = 300;
  EXPECT_DOUBLE_EQ(iteration.forecast(limits), 8000 + 3000 + 1000);
}

TEST(Forecast, WhatDiesWhileItIsAwayDoesNotReturn) {
  Iteration iteration(8);
  for (Recording::Position i = 2; i < 6; ++i) iteration.set_live(i, 20);
  iteration.away(10, 1, 6, 6).last().needed = false;
  EXPECT_DOUBLE_EQ(iteration.forecast(machine(10)), 8000 + 1000);
}

// Any absences, also such as no planner makes: it ends, is never faster than the launches, and always says the same.
TEST(Forecast, EndsForWhateverItIsAsked) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto size = static_cast<Recording::Position>(rng.between(2, 40));
    Iteration iteration(size, static_cast<double>(rng.between(1, 2000)));
    for (Recording::Position i = 0; i < size; ++i) iteration.set_live(i, rng.between(5, 60));
    for (Recording::Position after = 0; after < size; ++after) {
      if (rng.below(3) != 0) continue;
      const std::uint64_t before = after + rng.between(1, size);
      iteration.away(static_cast<std::uint32_t>(rng.between(1, 20)), after, before, rng.between(after + 1, before));
      iteration.last().needed = rng.below(4) != 0;
      iteration.last().tier = rng.below(2) != 0 ? Tier::kHost : Tier::kFlash;
      iteration.last().unwritten = static_cast<std::uint32_t>(rng.between(0, iteration.last().blocks));
    }
    PlanLimits limits = machine(static_cast<std::uint32_t>(rng.between(1, 40)));
    limits.host_blocks = 1000;
    limits.host_in_ns = static_cast<double>(rng.between(1, 50));
    const double ns = iteration.forecast(limits);
    EXPECT_GE(ns, Iteration(size, 1).forecast(machine(1000)) * 0.999);
    EXPECT_EQ(ns, iteration.forecast(limits));
  }
}

}  // namespace
}  // namespace ebb
