// When tensors are born, used and dead, on traces made by hand; and invariants on random ones.
#include "plan/vitality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "plan/test/trace_lines.h"
#include "plan/trace.h"

namespace ebb {
namespace {

// Four launches of 10, 20, 30 and 40 ns: a weight that the last one updates, an activation kept from the first to the
// last, one that dies at once, and a workspace that nothing reads.
Trace small_trace() {
  Trace trace;
  const auto weight = add_tensor(trace, 100, true);
  const auto kept = add_tensor(trace, 10);
  const auto passing = add_tensor(trace, 1);
  const auto workspace = add_tensor(trace, 1000);
  add_launch(trace, 10, {weight}, {kept});
  add_launch(trace, 20, {kept}, {passing});
  add_launch(trace, 30, {passing}, {workspace});
  add_launch(trace, 40, {kept, weight}, {weight});
  return trace;
}

TEST(Vitality, FindsLivesAndPeaks) {
  const Vitality vitality = analyse(small_trace());
  EXPECT_EQ(vitality.ideal_ns(), 100u);
  EXPECT_EQ(vitality.live_bytes, (std::vector<std::uint64_t>{110, 111, 1111, 110}));
  EXPECT_EQ(vitality.vital_bytes, vitality.live_bytes);
  EXPECT_EQ(vitality.working_set_bytes, (std::vector<std::uint64_t>{110, 11, 1001, 110}));
  EXPECT_EQ(vitality.peak_live_bytes, 1111u);
  EXPECT_EQ(vitality.peak_live_launch, 2u);
  EXPECT_EQ(vitality.working_set_bytes_max, 1001u);
  EXPECT_EQ(vitality.tensors[1].born, 0u);
  EXPECT_EQ(vitality.tensors[1].dies, 4u);
  EXPECT_EQ(vitality.tensors[2].dies, 3u);
  EXPECT_EQ(vitality.tensors[3].born, 2u);
  EXPECT_EQ(vitality.tensors[3].dies, 3u);
}

// Dead content that may still be looked at: until its tensor is freed, or overwritten.
TEST(Vitality, WhatIsDeadCanStay) {
  Trace trace = small_trace();
  trace.tensors[2].freed_before = 4;  // "passing", whose last use is launch 2
  const auto scratch = add_tensor(trace, 7, true);
  add_launch(trace, 50, {}, {scratch});
  const Vitality vanishes = analyse(trace), stays = analyse(trace, 1, Dead::kStays);
  EXPECT_EQ(vanishes.vital_bytes, (std::vector<std::uint64_t>{110, 111, 1111, 110, 107}));
  EXPECT_EQ(stays.vital_bytes, (std::vector<std::uint64_t>{117, 118, 1118, 118, 107}));
  const auto of = [](const Vitality& vitality, std::uint32_t tensor) {
    return std::count_if(vitality.periods.begin(), vitality.periods.end(), [&](auto& p) { return p.tensor == tensor; });
  };
  EXPECT_EQ(of(vanishes, 2), 0);
  ASSERT_EQ(of(stays, 2), 1);
  const auto dead = std::find_if(stays.periods.begin(), stays.periods.end(), [](auto& p) { return p.tensor == 2; });
  EXPECT_EQ(dead->after, 2u);
  EXPECT_EQ(dead->before, 4u);
  EXPECT_EQ(dead->made, 1u);
  EXPECT_FALSE(dead->needed);
  EXPECT_FALSE(dead->wraps);
}

TEST(Vitality, FindsInactivePeriods) {
  const Vitality vitality = analyse(small_trace());
  ASSERT_EQ(vitality.periods.size(), 2u);
  const auto& weight = vitality.periods[0];
  EXPECT_EQ(weight.tensor, 0u);
  EXPECT_EQ(weight.after, 0u);
  EXPECT_EQ(weight.before, 3u);
  EXPECT_FALSE(weight.wraps);
  EXPECT_TRUE(weight.needed);
  EXPECT_EQ(weight.made, 3u) << "by the update of the iteration before";
  EXPECT_EQ(weight.ns, 50u);
  EXPECT_EQ(weight.bytes, 100u);
  const auto& kept = vitality.periods[1];
  EXPECT_EQ(kept.tensor, 1u);
  EXPECT_EQ(kept.after, 1u);
  EXPECT_EQ(kept.before, 3u);
  EXPECT_EQ(kept.made, 0u);
  EXPECT_EQ(kept.ns, 30u);
}

TEST(Vitality, APersistentTensorUsedOnceWrapsAround) {
  Trace trace;
  const auto once = add_tensor(trace, 5, true);
  const auto other = add_tensor(trace, 7);
  add_launch(trace, 10, {}, {other});
  add_launch(trace, 20, {once, other}, {});
  add_launch(trace, 40, {other}, {});
  const Vitality vitality = analyse(trace);
  ASSERT_EQ(vitality.periods.size(), 1u);
  EXPECT_TRUE(vitality.periods[0].wraps);
  EXPECT_EQ(vitality.periods[0].after, 1u);
  EXPECT_EQ(vitality.periods[0].before, 1u);
  EXPECT_EQ(vitality.periods[0].ns, 50u);
  EXPECT_EQ(vitality.periods[0].made, Vitality::kNone) << "nothing writes it";
}

TEST(Vitality, ContentThatIsOverwrittenUnreadIsDead) {
  Trace trace;
  const auto reused = add_tensor(trace, 5);
  const auto other = add_tensor(trace, 7);
  add_launch(trace, 10, {}, {reused});
  add_launch(trace, 10, {}, {other});
  add_launch(trace, 10, {}, {reused});
  const Vitality vitality = analyse(trace);
  ASSERT_EQ(vitality.periods.size(), 1u);
  EXPECT_FALSE(vitality.periods[0].needed);
  EXPECT_EQ(vitality.live_bytes, (std::vector<std::uint64_t>{5, 12, 5}));
  EXPECT_EQ(vitality.vital_bytes, (std::vector<std::uint64_t>{5, 7, 5}));
}

TEST(Vitality, AllocationsAndFreesWin) {
  Trace trace = small_trace();
  trace.tensors[2].allocated_before = 0;
  trace.tensors[3].freed_before = 4;
  const Vitality vitality = analyse(trace);
  EXPECT_EQ(vitality.tensors[2].born, 0u);
  EXPECT_EQ(vitality.tensors[3].dies, 4u);
  EXPECT_EQ(vitality.live_bytes, (std::vector<std::uint64_t>{111, 111, 1111, 1110}));
  EXPECT_EQ(vitality.vital_bytes, (std::vector<std::uint64_t>{110, 111, 1111, 110})) << "no content before and after";
}

TEST(Vitality, RoundsUpToGranules) {
  const Vitality vitality = analyse(small_trace(), 64);
  EXPECT_EQ(vitality.tensors[0].bytes, 128u);
  EXPECT_EQ(vitality.tensors[2].bytes, 64u);
  EXPECT_EQ(vitality.tensors[3].bytes, 1024u);
}

TEST(Vitality, OfNothingIsNothing) {
  const Vitality vitality = analyse(Trace{});
  EXPECT_EQ(vitality.ideal_ns(), 0u);
  EXPECT_TRUE(vitality.periods.empty());
  EXPECT_TRUE(vitality.live_bytes.empty());
}

TEST(Vitality, UnknownTimesCountAsNone) {
  Trace trace = small_trace();
  trace.launches[1].ns = Trace::kUnknown;
  const Vitality vitality = analyse(trace);
  EXPECT_EQ(vitality.ideal_ns(), 80u);
  EXPECT_EQ(vitality.unknown_durations, 1u);
}

// What a sequence holds before the first use of a persistent tensor is there from the start, and nothing wraps around.
TEST(Vitality, ASequenceDoesNotRepeat) {
  Trace trace = small_trace();
  const auto late = add_tensor(trace, 500, true);
  const auto overwritten = add_tensor(trace, 7000, true);
  add_launch(trace, 5, {late}, {overwritten});
  trace.sequence = true;
  trace.steps = {5};
  const Vitality vitality = analyse(trace);
  EXPECT_TRUE(vitality.sequence);
  EXPECT_EQ(vitality.vital_bytes, (std::vector<std::uint64_t>{610, 611, 1611, 610, 7500}));
  ASSERT_EQ(vitality.periods.size(), 3u);
  const auto& weight = vitality.periods[0];
  EXPECT_EQ(weight.tensor, 0u);
  EXPECT_EQ(weight.made, Vitality::kNone) << "before the sequence";
  EXPECT_FALSE(weight.wraps);
  const auto& before = vitality.periods[2];
  EXPECT_EQ(before.tensor, late);
  EXPECT_EQ(before.after, 5u) << "since before the first launch";
  EXPECT_EQ(before.before, 4u);
  EXPECT_TRUE(before.wraps);
  EXPECT_TRUE(before.needed);
  EXPECT_EQ(before.ns, 100u);
}

// Dead content of a persistent tensor, which stays, is there from the start, to the end, and before it is overwritten.
TEST(Vitality, DeadContentStaysInASequenceToo) {
  Trace trace;
  const auto state = add_tensor(trace, 100, true);
  const auto passing = add_tensor(trace, 10);
  add_launch(trace, 1, {}, {passing});
  add_launch(trace, 1, {passing}, {state});
  for (int i = 0; i < 2; ++i) add_launch(trace, 1, {}, {});
  trace.tensors[passing].freed_before = 4;
  trace.sequence = true;
  trace.steps = {4};
  EXPECT_EQ(analyse(trace).vital_bytes, (std::vector<std::uint64_t>{10, 110, 0, 0}));
  const Vitality stays = analyse(trace, 1, Dead::kStays);
  EXPECT_EQ(stays.vital_bytes, (std::vector<std::uint64_t>{110, 110, 110, 110}));
  ASSERT_EQ(stays.periods.size(), 3u);
  for (const auto& period : stays.periods) EXPECT_FALSE(period.needed);
  EXPECT_EQ(stays.periods[0].tensor, state) << "after its last use";
  EXPECT_EQ(stays.periods[0].made, 1u);
  EXPECT_EQ(stays.periods[0].before, 4u);
  EXPECT_EQ(stays.periods[1].tensor, passing);
  EXPECT_TRUE(stays.periods[2].wraps) << "before it";
  EXPECT_EQ(stays.periods[2].made, Vitality::kNone);
}

TEST(Vitality, WhatWasUsedBeforeAPartIsThereInIt) {
  Trace trace = small_trace();
  trace.sequence = true;
  trace.steps = {1, 4};
  const Vitality vitality = analyse(trace, 1, Dead::kVanishes, 1);
  EXPECT_EQ(vitality.ideal_ns(), 90u);
  EXPECT_EQ(vitality.vital_bytes, (std::vector<std::uint64_t>{111, 1111, 110})) << "as in the whole";
  EXPECT_EQ(vitality.tensors[1].born, 0u);
  EXPECT_EQ(vitality.tensors[1].dies, 3u);
  ASSERT_EQ(vitality.periods.size(), 2u);
  EXPECT_EQ(vitality.periods[0].tensor, 1u) << "used first and last";
  EXPECT_EQ(vitality.periods[0].made, Vitality::kNone);
  EXPECT_EQ(vitality.periods[1].tensor, 0u) << "the weight, since before";
  EXPECT_EQ(vitality.periods[1].after, 3u);
  EXPECT_EQ(vitality.periods[1].before, 2u);
}

TEST(Vitality, RandomTracesKeepTheInvariants) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    Trace trace;
    const auto tensors = static_cast<std::uint32_t>(1 + rng.below(10));
    for (std::uint32_t i = 0; i < tensors; ++i) add_tensor(trace, rng.below(50), rng.below(3) == 0);
    const std::uint64_t launches = 1 + rng.below(15);
    for (std::uint64_t k = 0; k < launches; ++k) {
      std::set<std::uint32_t> reads, writes;
      for (std::uint64_t i = rng.below(3); i > 0; --i) reads.insert(static_cast<std::uint32_t>(rng.below(tensors)));
      for (std::uint64_t i = rng.below(3); i > 0; --i) writes.insert(static_cast<std::uint32_t>(rng.below(tensors)));
      add_launch(trace, rng.below(20), {reads.begin(), reads.end()}, {writes.begin(), writes.end()});
    }
    trace.sequence = seed % 3 == 0;
    const auto first = static_cast<std::uint32_t>(trace.sequence ? rng.below(launches) : 0);
    const Vitality vitality = analyse(trace, 1, seed % 2 == 0 ? Dead::kStays : Dead::kVanishes, first);
    for (std::size_t k = 0; k < vitality.vital_bytes.size(); ++k) {
      EXPECT_LE(vitality.working_set_bytes[k], vitality.vital_bytes[k]) << "seed " << seed;
      EXPECT_LE(vitality.vital_bytes[k], vitality.live_bytes[k]) << "seed " << seed;
    }
    for (const auto& period : vitality.periods) {
      for (const auto& use : vitality.uses_of(period.tensor)) {
        const bool inside = period.wraps && !trace.sequence
                                ? use.launch > period.after || use.launch < period.before
                                : use.launch < period.before && (period.wraps || use.launch > period.after);
        EXPECT_FALSE(inside) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace ebb
