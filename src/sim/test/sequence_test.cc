// TraceSimulator on sequences, which are run once, as they were.
#include <gtest/gtest.h>

#include "small_machine.h"

namespace ebb {
namespace {

// Iterations of random lengths with tensors of their own, and one that each leaves to the next.
Trace sequence(std::uint64_t seed, std::uint32_t iterations) {
  Rng rng(seed);
  TraceBuilder builder;
  std::vector<std::uint32_t> weights, steps;
  for (std::uint32_t i = 0; i < 12; ++i) weights.push_back(builder.tensor(16 * kBlock, true));
  std::uint32_t launches = 0, handed_on = builder.tensor(8 * kBlock, false);
  builder.launch(kNs, {}, {handed_on});
  ++launches;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (std::uint64_t left = rng.between(6, 20); left > 0; --left, ++launches) {
      const std::uint32_t made = builder.tensor(rng.between(1, 24) * kBlock, false);
      const std::uint32_t weight = weights[rng.below(weights.size())];
      builder.launch(rng.between(1, 20) * kNs, {weight, handed_on},
                     rng.chance(1, 2) ? Indices{made, weight} : Indices{made});
      if (rng.chance(1, 6)) handed_on = made;
    }
    steps.push_back(launches);
  }
  Trace trace = builder.take();
  trace.sequence = true;
  trace.steps = steps;
  EBB_CHECK(check(trace).empty());
  return trace;
}

TEST(SequenceSimulator, ASequenceIsRunOnceAsItWas) {
  TraceBuilder builder;
  for (std::uint32_t i = 0; i < 9; ++i) builder.tensor(16 * kBlock, true);
  for (std::uint32_t i = 0; i < 5; ++i) builder.launch(kNs, {i}, {});
  for (std::uint32_t i = 5; i < 9; ++i) builder.launch(3 * kNs, {i}, {});
  Trace trace = builder.take();
  trace.sequence = true;
  trace.steps = {5, 9};
  auto options = machine();
  options.machine.device_bytes = 2 * options.machine.device_bytes;  // all of it fits
  options.iterations = 77;
  const auto iterations = run(trace, "window", options);
  ASSERT_EQ(iterations.size(), 2u);
  EXPECT_EQ(iterations[0].ns, 5 * kNs);
  EXPECT_EQ(iterations[1].ns, 12 * kNs);
  auto sum = iterations[0];
  sum += iterations[1];
  EXPECT_EQ(sum.ideal_ns, 17 * kNs);
}

// A sequence of equal iterations is what a loop is.
TEST(SequenceSimulator, ASequenceOfEqualsIsALoop) {
  const Trace loop = round_robin(9, 16, true);
  Trace trace = loop;
  trace.sequence = true;
  trace.launches.clear();
  for (int i = 0; i < 4; ++i) {
    trace.launches.insert(trace.launches.end(), loop.launches.begin(), loop.launches.end());
    trace.steps.push_back(static_cast<Trace::LaunchIndex>(trace.launches.size()));
  }
  auto options = machine();
  options.iterations = 4;
  for (const std::string_view policy : all_policy_names()) {
    const auto repeated = run(loop, policy, options), once = run(trace, policy, options);
    ASSERT_EQ(repeated.size(), once.size());
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(repeated[i].ns, once[i].ns) << policy;
  }
}

// What a sequence frees is gone: memory for one iteration's tensors is enough, however many there are.
TEST(SequenceSimulator, ASequenceFreesWhatDies) {
  const Trace trace = sequence(3, 40);
  for (const std::string_view policy : {"on_demand", "window", "foresight"}) {
    TraceSimulator simulator(trace, make_any_policy(policy), machine());
    EXPECT_EQ(simulator.run().size(), 40u);
    EXPECT_LE(simulator.core().table().count(BlockState::kResident), kFrames);
    EXPECT_EQ(simulator.core().engine().counters().lost, 0u);
  }
}

TEST(SequenceSimulator, RunsTheSameTwice) {
  for (const std::string_view policy : all_policy_names()) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const Trace trace = sequence(seed, 8);
      auto options = machine();
      if (seed % 2 == 0) options.machine.host_bytes = 0;
      const auto first = run(trace, policy, options), second = run(trace, policy, options);
      ASSERT_EQ(first.size(), 8u);
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(first[i].ns, second[i].ns) << "seed " << seed;
        EXPECT_GE(first[i].ns, first[i].ideal_ns) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace ebb
