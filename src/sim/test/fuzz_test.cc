// The fuzzer is itself checked: its programs are data that means the same wherever it is read, and what shrinking
// leaves still fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ebb/status.h"
#include "sim/fuzz/fuzz_draw.h"
#include "sim/fuzz/fuzz_run.h"
#include "sim/fuzz/shrink.h"

namespace ebb {
namespace {

bool has(const Scenario& scenario, FuzzAction action) {
  return std::ranges::any_of(scenario.operations, [&](const FuzzOperation& each) { return each.action == action; });
}

TEST(FuzzDraw, ASeedIsAProgram) {
  const Scenario one = draw_scenario(7, 50);
  EXPECT_LE(50u, one.operations.size());
  EXPECT_EQ(one.to_json(), draw_scenario(7, 50).to_json());
  EXPECT_NE(one.to_json(), draw_scenario(8, 50).to_json());
}

TEST(FuzzDraw, SeedsDifferInKind) {
  std::set<std::string> policies;
  FaultCounts with{};
  std::uint64_t calm = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Scenario scenario = draw_scenario(seed, 1);
    policies.insert(scenario.policy);
    calm += scenario.faults == FaultPlan() ? 1 : 0;
    for (std::size_t i = 0; i < kFaults; ++i) with[Fault(i)] += scenario.faults[Fault(i)].numerator;
  }
  EXPECT_LT(3u, policies.size());
  EXPECT_LT(50u, calm);
  for (std::size_t i = 0; i < kFaults; ++i) EXPECT_TRUE(with[Fault(i)] > 20 && with[Fault(i)] < 300) << kFaultNames[i];
}

TEST(FuzzRun, IsTheSameTwiceAndFromJson) {
  FuzzHistory history;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Scenario scenario = draw_scenario(seed, 80);
    const Scenario read = Scenario::parse(scenario.to_json(), "again");
    EXPECT_EQ(read.operations, scenario.operations);
    EXPECT_EQ(read.faults, scenario.faults);
    EXPECT_EQ(run_fuzz(read, history).hash, run_fuzz(scenario, history).hash);
  }
}

TEST(FuzzRun, ReachesEveryFaultAndLosesOnlyToThoseThatTake) {
  FuzzHistory history;
  FuzzOutcome all;
  for (std::uint64_t seed = 0; seed < 150; ++seed) all.add(run_fuzz(draw_scenario(seed, 200), history));
  for (std::size_t i = 0; i < kFaults; ++i) {
    EXPECT_LT(0u, all.injected[Fault(i)]) << kFaultNames[i];
    EXPECT_TRUE(loses(Fault(i)) || all.driver.lost_by[Fault(i)] == 0) << kFaultNames[i];
  }
  EXPECT_LT(0u, all.driver.lost);
  EXPECT_LT(0u, all.flash_full);
  EXPECT_LT(0u, all.frames_short);
}

TEST(Shrink, LeavesWhatTheFailureNeeds) {
  Scenario scenario = draw_scenario(3, 300);
  scenario.faults[Fault::kStall] = {1, 10};
  scenario.faults[Fault::kSlow] = {1, 10};
  scenario.operations[40] = {FuzzAction::kFork, 1};
  scenario.operations[200] = {FuzzAction::kMap, 2};
  std::uint32_t asked = 0;
  const auto fails = [&](const Scenario& each) {
    ++asked;
    const auto fork = std::ranges::find(each.operations, FuzzOperation{FuzzAction::kFork, 1});
    return std::find(fork, each.operations.end(), FuzzOperation{FuzzAction::kMap, 2}) != each.operations.end() &&
           each.faults[Fault::kStall].numerator > 0;
  };
  const Shrunk shrunk = shrink(scenario, fails, 10'000);
  EXPECT_EQ(shrunk.tries, asked);
  EXPECT_EQ(shrunk.scenario.operations, (std::vector<FuzzOperation>{{FuzzAction::kFork, 1}, {FuzzAction::kMap, 2}}));
  EXPECT_EQ(shrunk.scenario.faults[Fault::kStall], (Ratio{1, 10}));
  EXPECT_EQ(shrunk.scenario.faults[Fault::kSlow], Ratio());
  EXPECT_EQ(shrunk.scenario.policy, "on_demand");
}

TEST(Shrink, StopsAfterSoManyTries) {
  const Scenario scenario = draw_scenario(3, 300);
  std::uint32_t asked = 0;
  const Shrunk shrunk = shrink(
      scenario, [&](const Scenario& each) { return ++asked > 0 && has(each, FuzzAction::kAllocate); }, 5);
  EXPECT_EQ(asked, 5u);
  EXPECT_LT(shrunk.scenario.operations.size(), scenario.operations.size());
  EXPECT_TRUE(has(shrunk.scenario, FuzzAction::kAllocate));
}

TEST(FuzzProgram, BadOnesAreRefused) {
  for (const char* text :
       {R"({"operations": 1})", R"({"operations": [["allocate"]]})", R"({"operations": [["alocate", 1]]})",
        R"({"operations": [["allocate", -1]]})", R"({"operations": [["allocate", 4294967296]]})"}) {
    EXPECT_THROW(static_cast<void>(Scenario::parse(text, "bad")), Error) << text;
  }
}

}  // namespace
}  // namespace ebb
