// What gradients take on a network, by hand; and that nothing of a trace is lost on the way.
#include "sim/ring.h"

#include <gtest/gtest.h>

#include "plan/policy.h"
#include "sim/test/trace_builder.h"
#include "sim/trace_simulator.h"

namespace ebb {
namespace {

constexpr std::uint64_t kMb = 1'000'000;
constexpr std::uint64_t kMs = 1'000'000;

// Two weights; a backward pass of 10 ms each, the last layer first; and an update of each.
Trace two_layers(std::uint64_t gradient_bytes) {
  TraceBuilder builder;
  const auto first = builder.tensor(8 * kMb, true);
  const auto second = builder.tensor(8 * kMb, true);
  const auto flow = builder.tensor(8 * kMb, false);
  const auto of_second = builder.tensor(gradient_bytes, false);
  const auto of_first = builder.tensor(gradient_bytes, false);
  builder.launch(10 * kMs, {first, second}, {flow});
  builder.launch(10 * kMs, {flow, second}, {of_second});
  builder.launch(10 * kMs, {flow, first}, {of_first});
  builder.launch(kMs, {of_first, first}, {first});
  builder.launch(kMs, {of_second, second}, {second});
  Trace trace = builder.take();
  for (const auto weight : {first, second}) trace.tensors[weight].kind = Trace::Kind::kWeight;
  for (const auto gradient : {of_first, of_second}) trace.tensors[gradient].kind = Trace::Kind::kGradient;
  return trace;
}

Ring ring_of(std::uint32_t ranks, std::uint64_t bucket_bytes = 1) {
  Ring ring;
  ring.ranks = ranks;
  ring.bps = 1e9;
  ring.bucket_bytes = bucket_bytes;
  return ring;
}

TEST(Ring, AnAllReduceSendsTwiceWhatTheOthersHave) {
  Ring ring = ring_of(4);
  EXPECT_EQ(ring.all_reduce_ns(8 * kMb), 12 * kMs);  // 2 * 3 / 4 of 8 ms
  ring.latency_ns = 1000;
  EXPECT_EQ(ring.all_reduce_ns(8 * kMb), 12 * kMs + 6000);
  ring.ranks = 1;
  EXPECT_EQ(ring.all_reduce_ns(8 * kMb), 0u);
}

TEST(Ring, OneRankExchangesNothing) {
  const RingTrace result = with_all_reduces(two_layers(8 * kMb), ring_of(1));
  EXPECT_EQ(result.trace.launches.size(), 5u);
  EXPECT_EQ(result.network_ns, 0u);
}

// The second gradient is complete at 20 ms and summed up at 28, the first at 30 and 38: the update begins with it.
TEST(Ring, WhatIsSummedUpBesideTheBackwardPassIsNotWaitedFor) {
  const RingTrace result = with_all_reduces(two_layers(8 * kMb), ring_of(2));
  EXPECT_EQ(result.reductions, 2u);
  EXPECT_EQ(result.gradient_bytes, 16 * kMb);
  EXPECT_EQ(result.network_ns, 16 * kMs);
  EXPECT_EQ(result.waited_ns, 8 * kMs);
  ASSERT_EQ(result.trace.launches.size(), 6u);
  EXPECT_EQ(result.trace.ops[result.trace.launches[3].op], "all_reduce");
  EXPECT_EQ(result.trace.launches[3].ns, 8 * kMs);
  EXPECT_EQ(check(result.trace), "");
}

// Both in one bucket, which is never full: it goes when the update asks for it, at 30 ms, and takes 16.
TEST(Ring, ABucketGoesWhenItIsFullOrAskedFor) {
  const RingTrace result = with_all_reduces(two_layers(8 * kMb), ring_of(2, 100 * kMb));
  EXPECT_EQ(result.reductions, 1u);
  EXPECT_EQ(result.waited_ns, 16 * kMs);
}

// 40 ms each: the network has the second until 60 ms and the first until 100.
TEST(Ring, OneIsSummedUpAfterTheOther) {
  const RingTrace result = with_all_reduces(two_layers(40 * kMb), ring_of(2));
  EXPECT_EQ(result.network_ns, 80 * kMs);
  EXPECT_EQ(result.waited_ns, 70 * kMs);
}

TEST(Ring, WhatUpdatesNothingIsNoGradientOfAParameter) {
  Trace trace = two_layers(8 * kMb);
  for (Trace::Tensor& tensor : trace.tensors) {
    if (tensor.kind == Trace::Kind::kWeight) tensor.kind = Trace::Kind::kOther;
  }
  EXPECT_EQ(with_all_reduces(trace, ring_of(2)).gradient_bytes, 0u);
}

TEST(Ring, LinesBetweenLaunchesMoveWithThem) {
  Trace trace = two_layers(8 * kMb);
  trace.tensors[2].allocated_before = 0;
  trace.tensors[2].freed_before = 3;
  trace.steps = {5};
  const RingTrace result = with_all_reduces(trace, ring_of(2));
  EXPECT_EQ(result.trace.tensors[2].allocated_before, 0u);
  EXPECT_EQ(result.trace.tensors[2].freed_before, 4u) << "before the same launch";
  EXPECT_EQ(result.trace.steps, std::vector<Trace::LaunchIndex>{6});
  EXPECT_EQ(check(result.trace), "");
}

// The core runs it like any other: with memory enough the step is what kernels and waiting take.
TEST(Ring, TheSimulatorWaitsWithIt) {
  const RingTrace result = with_all_reduces(two_layers(8 * kMb), ring_of(2));
  TraceSimulator::Options options;
  options.machine.device_bytes = 256ull << 20;
  const auto last = TraceSimulator(result.trace, make_policy("foresight"), options).run().back();
  EXPECT_EQ(last.ns, (10 + 10 + 10 + 8 + 1 + 1) * kMs);
}

}  // namespace
}  // namespace ebb
