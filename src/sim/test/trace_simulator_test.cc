// TraceSimulator on traces whose times are known: what must be exact is computed here by hand.
#include "sim/trace_simulator.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "ebb/status.h"
#include "rivals/policies.h"
#include "small_machine.h"
#include "trace_builder.h"

namespace ebb {
namespace {

std::uint64_t bytes(const TraceSimulator::Iteration& iteration, Lane lane) {
  return iteration.lanes[static_cast<std::size_t>(lane)].bytes;
}

std::uint64_t stalls(const TraceSimulator::Iteration& iteration) {
  std::uint64_t sum = 0;
  for (const std::uint64_t ns : iteration.stall_ns) sum += ns;
  return sum;
}

// What it is told of allocations and touches.
class Listener final : public Policy {
 public:
  explicit Listener(std::vector<BlockRange>& allocations, std::vector<BlockRange>& touches)
      : allocations_(allocations), touches_(touches) {}
  std::string_view name() const override { return "listener"; }
  bool listens() const override { return true; }
  void allocated(std::uint64_t, std::uint64_t, BlockRange blocks) override { allocations_.push_back(blocks); }
  void launched(std::uint64_t, std::span<const Touch> touches) override {
    for (const Touch& touch : touches) touches_.push_back(touch.blocks);
  }

 private:
  std::vector<BlockRange>&allocations_, &touches_;
};

TEST(TraceSimulator, PiecesLieInOneAllocationAndAreTouchedByThemselves) {
  for (const bool persistent : {true, false}) {
    TraceBuilder builder;
    const std::uint32_t first = builder.tensor(4 * kBlock, persistent);
    const std::uint32_t second = builder.piece(2 * kBlock);
    builder.launch(kNs, {first, second}, {first, second});
    builder.launch(kNs, {second}, {second});
    const Trace trace = builder.take();
    std::vector<BlockRange> allocations, touches;
    TraceSimulator(trace, std::make_unique<Listener>(allocations, touches), machine()).run();
    ASSERT_EQ(allocations.size(), persistent ? 1u : 3u) << "one an iteration";
    EXPECT_EQ(allocations[0].count, 6u);
    ASSERT_EQ(touches.size(), 6u);
    EXPECT_EQ(touches[0], allocations[0]) << "side by side they are one operand";
    EXPECT_EQ(touches[1], (BlockRange{BlockIndex(allocations[0].first.value() + 4), 2}));
  }
}

// Flash that has no more for both directions than for one: a program that only waits for it takes twice as long.
TEST(TraceSimulator, DirectionsOfFlashMayShareItsBandwidth) {
  const Trace trace = round_robin(16, 16, true);
  TraceSimulator::Options options = machine();
  options.machine.host_bytes = 0;
  const auto apart = run(trace, "window", options).back();
  options.machine.flash_total_bps = 2 * options.machine.flash_read_bps;
  EXPECT_EQ(run(trace, "window", options).back().ns, apart.ns);
  options.machine.flash_total_bps = options.machine.flash_read_bps;
  const auto together = run(trace, "window", options).back();
  const std::uint64_t moved = bytes(together, Lane::kFlashIn) + bytes(together, Lane::kFlashOut);
  EXPECT_GE(together.ns, moved / kBlock * 4 * kBlockNs);
  EXPECT_GT(together.ns, apart.ns);
}

// The first iteration by a guide waits less than without, and hardly more than later ones, which have a recording. One
// that is about another program changes no more than time.
TEST(TraceSimulator, AGuidedFirstIterationWaitsLess) {
  const Trace trace = TraceBuilder::network(3, 64, 24 * kBlock, 100'000);
  auto options = machine();
  options.machine.device_bytes = 3 * kFrames * kBlock;
  const auto alone = run(trace, "foresight", options);
  options.guided = true;
  const auto guided = run(trace, "foresight", options);
  EXPECT_LT(stalls(guided.front()), stalls(alone.front()) / 2);
  EXPECT_LE(guided.front().ns, guided.back().ns * 11 / 10);
  EXPECT_LE(guided.back().ns, alone.back().ns * 101 / 100);
}

// Beside a kernel flash has less; what nothing runs beside has all of it.
TEST(TraceSimulator, FlashMayBeSlowerWhileKernelsRun) {
  TraceSimulator::Options options = machine();
  options.machine.host_bytes = 0;
  const auto demanded = [&](double busy_bps) {
    options.machine.busy_read_bps = busy_bps;
    return run(round_robin(16, 16, false), "on_demand", options).back();
  };
  const auto ahead = [&](double busy_bps) {
    options.machine.busy_read_bps = busy_bps;
    return run(round_robin(16, 16, false), "foresight", options).back();
  };
  const double all = options.machine.flash_read_bps;
  EXPECT_EQ(demanded(all / 4).ns, demanded(0).ns);
  EXPECT_EQ(ahead(all).ns, ahead(0).ns);
  EXPECT_GT(ahead(all / 4).ns, ahead(0).ns);
}

Trace mapped(Trace trace) {
  for (Trace::Tensor& tensor : trace.tensors) tensor.mapped = tensor.persistent;
  return trace;
}

// What a program makes has to be written once before it can leave; what it maps is in its file from the beginning.
TEST(TraceSimulator, WhatIsMappedIsReadAndNeverWritten) {
  const Trace trace = round_robin(12, 16, false);
  auto options = machine();
  options.machine.host_bytes = 0;
  for (const std::string_view policy : {"foresight", "window", "on_demand"}) {
    TraceSimulator made(trace, make_any_policy(policy), options);
    static_cast<void>(made.run());
    EXPECT_GT(made.core().engine().counters().evicted, 0u) << policy;
    const auto iterations = run(mapped(trace), policy, options);
    EXPECT_EQ(bytes(iterations[0], Lane::kFlashIn), 12 * 16 * kBlock) << policy;
    for (const auto& iteration : iterations) EXPECT_EQ(bytes(iteration, Lane::kFlashOut), 0u) << policy;
    EXPECT_GE(bytes(iterations[2], Lane::kFlashIn), (12 * 16 - kFrames) * kBlock) << policy;
  }
}

// Its file stays as it is: what has been written to goes to flash, and comes back from there.
TEST(TraceSimulator, WhatIsWrittenToLeavesItsFile) {
  auto options = machine();
  options.machine.host_bytes = 0;
  const auto last = run(mapped(round_robin(12, 16, true)), "window", options).back();
  EXPECT_GE(bytes(last, Lane::kFlashOut), (12 * 16 - kFrames) * kBlock);
  EXPECT_GE(bytes(last, Lane::kFlashIn), (12 * 16 - kFrames) * kBlock);
}

// Small ones lie one behind the other in blocks, as the tensors of a checkpoint do.
TEST(TraceSimulator, MappedTensorsShareBlocks) {
  TraceBuilder builder;
  for (std::uint32_t i = 0; i < 64; ++i) builder.tensor(kBlock / 64, true);
  for (std::uint32_t i = 0; i < 64; ++i) builder.launch(kNs, {i}, {});
  EXPECT_EQ(bytes(run(mapped(builder.take()), "window", machine()).front(), Lane::kFlashIn), kBlock);
}

TEST(TraceSimulator, WhatFitsTakesExactlyItsKernels) {
  const Trace trace = round_robin(6, 16, true);
  for (const std::string_view policy : all_policy_names()) {
    for (const auto& iteration : run(trace, policy, machine())) {
      EXPECT_EQ(iteration.ns, 6 * kNs) << policy;
      EXPECT_EQ(iteration.ideal_ns, 6 * kNs) << policy;
      EXPECT_EQ(stalls(iteration), 0u) << policy;
      for (const auto& lane : iteration.lanes) EXPECT_EQ(lane.bytes, 0u) << policy;
    }
  }
}

// Nine tensors where eight fit, first in first out: each is absent when it is needed. Their copies on the host are
// good, so their frames are free at once, and a launch waits for its 16 blocks to come.
TEST(TraceSimulator, OneTensorTooManyStallsForItsBytes) {
  const auto last = run(round_robin(9, 16, false), "on_demand", machine()).back();
  EXPECT_EQ(last.ns, 9 * (kNs + 16 * kBlockNs));
  EXPECT_EQ(last.stall_ns[static_cast<std::size_t>(TraceSimulator::Cause::kFault)], 9 * 16 * kBlockNs);
  EXPECT_EQ(last.faults, 9u * 16);
  EXPECT_EQ(bytes(last, Lane::kHostIn), 9 * 16 * kBlock);
}

// The same, but each has been written: a frame is free when its block has left. Both directions work at once, and as
// one frame more is made free than is asked for, the first block of the next launch need not wait for one to leave.
TEST(TraceSimulator, WrittenTensorsLeaveWhileOthersCome) {
  const auto last = run(round_robin(9, 16, true), "on_demand", machine()).back();
  EXPECT_EQ(last.ns, 9 * (kNs + 16 * kBlockNs));
  EXPECT_EQ(bytes(last, Lane::kHostOut), 9 * 16 * kBlock);
}

TEST(TraceSimulator, CleanCopiesAreNotWrittenAgain) {
  const Trace trace = round_robin(9, 16, false);
  EXPECT_EQ(bytes(run(trace, "on_demand", machine()).back(), Lane::kHostOut), 0u);
  auto artifact = machine();
  artifact.timing = TraceSimulator::Timing::kArtifact;
  EXPECT_EQ(bytes(run(trace, "on_demand", artifact).back(), Lane::kHostOut), 9 * 16 * kBlock);
}

// Without host memory all goes to flash, at a quarter of the speed; the link is not what binds.
TEST(TraceSimulator, FlashRunsAtItsOwnPace) {
  auto options = machine();
  options.machine.host_bytes = 0;
  const auto last = run(round_robin(9, 16, false), "on_demand", options).back();
  // The last block still has to pass the link.
  EXPECT_EQ(last.ns, 9 * (kNs + 16 * 4 * kBlockNs + kBlockNs));
  EXPECT_EQ(bytes(last, Lane::kFlashIn), 9 * 16 * kBlock);
}

TEST(TraceSimulator, FaultsCostWhatTheMachineSays) {
  auto options = machine();
  options.machine.fault_ns = 100'000;  // for all that a device faults for at once
  const auto last = run(round_robin(9, 16, false), "on_demand", options).back();
  EXPECT_EQ(last.ns, 9 * (kNs + 100'000));
}

// Where one processor computes and moves, kernels take longer by what moves meanwhile, and waits do not.
TEST(TraceSimulator, TransfersTakeTimeFromKernelsThatRunMeanwhile) {
  const Trace trace = round_robin(6, 16, true);
  auto options = machine();
  options.machine.device_bytes = 64 * kBlock;
  const auto before = run(trace, "foresight", options).back();
  options.machine.toll_bps = 1e6 * static_cast<double>(kBlock);  // a block in 1000 ns
  const auto after = run(trace, "foresight", options).back();
  const std::uint64_t transfers = (bytes(after, Lane::kHostIn) + bytes(after, Lane::kHostOut)) / kBlock;
  ASSERT_GT(transfers, 0u);
  EXPECT_GT(after.ns, before.ns);
  EXPECT_LE(after.ns, before.ns + transfers * 1000);
}

// As long as the host is ahead, its time is hidden; behind a result that it waits for, it is not.
TEST(TraceSimulator, AHiddenSynchronisationCostsWhatTheHostTakes) {
  Trace trace = round_robin(4, 16, false);  // all of it fits
  auto options = machine();
  options.machine.launch_host_ns = kNs / 2;
  options.machine.sync_host_ns = 3 * kNs;
  const auto hidden = run(trace, "foresight", options).back();
  EXPECT_EQ(hidden.ns, 4 * kNs);
  EXPECT_EQ(stalls(hidden), 0u);
  trace.launches[1].sync = true;
  const auto seen = run(trace, "foresight", options).back();
  EXPECT_EQ(seen.ns, 4 * kNs + 3 * kNs + kNs / 2);
  EXPECT_EQ(seen.stall_ns[static_cast<std::size_t>(TraceSimulator::Cause::kHost)], 3 * kNs + kNs / 2);
  EXPECT_EQ(stalls(seen), 3 * kNs + kNs / 2);
}

TEST(TraceSimulator, AHostThatLaunchesMoreSlowlyThanTheDeviceRunsSetsThePace) {
  auto options = machine();
  options.machine.launch_host_ns = 2 * kNs;
  EXPECT_EQ(run(round_robin(4, 16, false), "window", options).back().ns, 4 * 2 * kNs);
}

// What moves makes use of it: what kernels alone were too short for comes while the device waits for the host.
TEST(TraceSimulator, BlocksComeWhileTheDeviceWaitsForTheHost) {
  Trace trace = round_robin(24, 16, false);  // eight fit
  auto options = machine();
  const auto memory_waits = [](const TraceSimulator::Iteration& iteration) {
    return stalls(iteration) - iteration.stall_ns[static_cast<std::size_t>(TraceSimulator::Cause::kHost)];
  };
  const auto without = run(trace, "foresight", options).back();
  options.machine.sync_host_ns = 16 * kBlockNs;
  for (Trace::Launch& launch : trace.launches) launch.sync = true;
  const auto with = run(trace, "foresight", options).back();
  EXPECT_GT(memory_waits(without), 24 * kNs / 10);
  EXPECT_LT(memory_waits(with), memory_waits(without) / 2);
}

// In the artifact's timing the kernel runs while its launch waits, but pays once more for blocks that it faults for: of
// 16 that come one after the other, its own time is hidden, and 16 are charged.
TEST(TraceSimulator, TheArtifactChargesForFaults) {
  const Trace trace = round_robin(9, 16, true);
  auto options = machine();
  options.timing = TraceSimulator::Timing::kArtifact;
  EXPECT_EQ(run(trace, "on_demand", options).back().ns, 9 * (kNs + 16 * kBlockNs));
}

// What has been asked for before is not charged: there, waiting is hidden by the kernel.
TEST(TraceSimulator, TheArtifactLetsLaunchesRunWhileTheyWait) {
  TraceBuilder builder;
  for (std::uint32_t i = 0; i < 7; ++i) builder.tensor(16 * kBlock, true);
  for (std::uint32_t i = 0; i < 7; ++i) {
    builder.launch(kNs, {i}, {i, builder.tensor(24 * kBlock, false)});
  }
  const Trace trace = builder.take();
  auto options = machine();
  const auto strict = run(trace, "foresight", options).back();
  options.timing = TraceSimulator::Timing::kArtifact;
  const auto artifact = run(trace, "foresight", options).back();
  EXPECT_GT(stalls(strict), 0u);
  EXPECT_LT(artifact.ns, strict.ns);
}

// In the artifact's timing a policy that does not listen drags dead tensors along.
TEST(TraceSimulator, TheArtifactsDemandPagingKeepsTheDead) {
  TraceBuilder builder;
  for (std::uint32_t i = 0; i < 9; ++i) builder.tensor(16 * kBlock, false);
  for (std::uint32_t i = 0; i < 9; ++i) builder.launch(kNs, {}, {i});
  const Trace trace = builder.take();
  auto options = machine();
  EXPECT_EQ(run(trace, "on_demand", options).back().ns, 9 * kNs);
  options.timing = TraceSimulator::Timing::kArtifact;
  const auto last = run(trace, "on_demand", options).back();
  EXPECT_EQ(bytes(last, Lane::kHostOut), 9 * 16 * kBlock);
  EXPECT_EQ(bytes(last, Lane::kHostIn), 9 * 16 * kBlock);
  EXPECT_EQ(run(trace, "window", options).back().ns, 9 * kNs);
}

TEST(TraceSimulator, VariedTimesAreIdealTimes) {
  auto options = machine();
  options.vary = [](std::uint32_t iteration, std::size_t) { return iteration == 2 ? 1.5 : 1.0; };
  const auto iterations = run(round_robin(6, 16, true), "foresight", options);
  EXPECT_EQ(iterations[1].ns, 6 * kNs);
  EXPECT_EQ(iterations[2].ns, 6 * kNs * 3 / 2);
  EXPECT_EQ(iterations[2].ideal_ns, 6 * kNs * 3 / 2);
}

TEST(TraceSimulator, SaysWhatIsWrongWithATrace) {
  TraceBuilder builder;
  builder.launch(Trace::kUnknown, {}, {builder.tensor(kBlock, false)});
  const Trace unknown = builder.take();
  EXPECT_THROW(run(unknown, "on_demand", machine()), Error);
  auto options = machine();
  options.machine.host_bytes = 0;
  options.machine.flash_write_bps = 0;
  EXPECT_THROW(run(round_robin(9, 16, false), "on_demand", options), Error);
}

class EveryPolicy : public testing::TestWithParam<std::string_view> {};

// Networks that need two to four times the device memory, with and without host memory.
TEST_P(EveryPolicy, RunsRandomNetworksWithinTheMachine) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = TraceBuilder::network(seed, 24, 24 * kBlock, 40 * kNs);
    auto options = machine();
    options.iterations = 4;
    if (seed % 3 == 0) options.machine.host_bytes = 0;
    if (seed % 3 == 1) options.machine.host_bytes = options.machine.device_bytes;
    options.timing = seed % 4 == 0 ? TraceSimulator::Timing::kArtifact : TraceSimulator::Timing::kStrict;
    TraceSimulator simulator(trace, make_any_policy(GetParam()), options);
    const auto iterations = simulator.run();
    // What had been handed to a lane when an iteration began counts for the one before.
    const double slack = LaneQueue::kDepth;
    for (const auto& each : iterations) {
      EXPECT_GE(each.ns, each.ideal_ns) << GetParam() << " seed " << seed;
      const auto blocks = [&](Lane lane) { return static_cast<double>(bytes(each, lane)) / kBlock; };
      const auto room = static_cast<double>(each.ns) / kBlockNs + slack;
      EXPECT_LE(blocks(Lane::kHostIn) + blocks(Lane::kFlashIn), room) << GetParam() << " seed " << seed;
      EXPECT_LE(blocks(Lane::kHostOut) + blocks(Lane::kFlashOut), room) << GetParam() << " seed " << seed;
      EXPECT_LE(blocks(Lane::kFlashIn), room / 4 + slack) << GetParam() << " seed " << seed;
      EXPECT_LE(blocks(Lane::kFlashOut), room / 4 + slack) << GetParam() << " seed " << seed;
      if (make_any_policy(GetParam())->listens()) {
        EXPECT_EQ(each.faults, 0u) << GetParam() << " seed " << seed;
      }
    }
    EXPECT_LE(simulator.core().table().count(BlockState::kResident), kFrames);
    EXPECT_EQ(simulator.core().engine().counters().lost, 0u);
  }
}

TEST_P(EveryPolicy, RunsTheSameTwice) {
  const Trace trace = TraceBuilder::network(7, 24, 24 * kBlock, 40 * kNs);
  const auto first = run(trace, GetParam(), machine());
  const auto second = run(trace, GetParam(), machine());
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].ns, second[i].ns);
    EXPECT_EQ(first[i].stall_ns, second[i].stall_ns);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      EXPECT_EQ(first[i].lanes[lane].bytes, second[i].lanes[lane].bytes);
    }
  }
}

// FlashNeuron and G10-GDS have no host memory to use.
TEST(Policies, SomeKnowOnlyFlash) {
  const Trace trace = TraceBuilder::network(3, 24, 24 * kBlock, 40 * kNs);
  for (const std::string_view policy : {"flashneuron", "g10_flash"}) {
    const auto last = run(trace, policy, machine()).back();
    EXPECT_EQ(bytes(last, Lane::kHostOut) + bytes(last, Lane::kHostIn), 0u) << policy;
    EXPECT_GT(bytes(last, Lane::kFlashIn), 0u) << policy;
  }
}

// Which beats which, where kernels are long enough to hide transfers. On machines this small, where frames in transit
// are a tenth of all, the plans that look ahead are close to one another.
TEST(Policies, LookingFurtherAheadIsFaster) {
  std::map<std::string_view, std::uint64_t> total;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = TraceBuilder::network(seed, 24, 24 * kBlock, 40 * kNs);
    for (const std::string_view policy : all_policy_names()) total[policy] += run(trace, policy, machine()).back().ns;
  }
  EXPECT_LT(total["deepum"], total["window"]);
  // Here the lane out is what a better choice of victims alone waits for as well.
  EXPECT_LT(total["belady"], total["window"] * 101 / 100);
  EXPECT_LT(total["g10"], total["g10_flash"]);
  for (const std::string_view policy : {"on_demand", "window", "belady", "flashneuron", "g10_flash"}) {
    EXPECT_LT(total["foresight"], total[policy]) << policy;
  }
  for (const std::string_view policy : all_policy_names())
    EXPECT_LT(total["foresight"], total[policy] * 21 / 20) << policy;
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::ValuesIn(all_policy_names().begin(), all_policy_names().end()),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ebb
