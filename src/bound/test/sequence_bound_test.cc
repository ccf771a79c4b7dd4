// The bound of a sequence, which does not repeat: where the best schedule is known by hand, and beside the full
// program, in which every period and every content has variables of its own, along a line instead of a circle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "bound/lower_bound.h"
#include "bound/test/flash_program.h"
#include "bound/test/small_traces.h"

namespace ebb {
namespace {

constexpr double kTolerance = 1e-5;  // seconds

// Who keeps clean copies keeps dead content, too.
Vitality vitality_of(const Trace& trace, Copies copies, std::uint32_t first = 0) {
  return analyse(trace, 1, copies == Copies::kKeptClean ? Dead::kStays : Dead::kVanishes, first);
}

double stall(const Trace& trace, const Machine& on, Copies copies, std::uint32_t first = 0,
             std::uint32_t resolution = 500) {
  const Bound bound = lower_bound(vitality_of(trace, copies, first), on, {copies, resolution});
  EXPECT_TRUE(bound.outcome == Bound::Outcome::kBounded || bound.outcome == Bound::Outcome::kFits);
  return static_cast<double>(bound.stall_ns) / 1e9;
}

Trace in_a_row(Trace trace) {
  trace.sequence = true;
  trace.steps = {static_cast<std::uint32_t>(trace.launches.size())};
  return trace;
}

TEST(SequenceBound, WhatIsThereAtTheStartIsChosenFreely) {
  Trace trace;
  const auto first = add_tensor(trace, 10 * kGB, true);
  const auto second = add_tensor(trace, 10 * kGB, true);
  add_launch(trace, kSecond, {first}, {});
  add_launch(trace, kSecond, {second}, {});
  const Machine on = machine(15, 100, 10);
  // The first launch finds its tensor and half of the other one. The rest of that comes when the first has gone, for
  // good; were this a loop, it would have to come back.
  EXPECT_NEAR(stall(in_a_row(trace), on, Copies::kKeptClean), 0.5, kTolerance);
  EXPECT_NEAR(stall(in_a_row(trace), on, Copies::kWritten), 0.5, kTolerance);
  EXPECT_NEAR(stall(trace, on, Copies::kKeptClean), 1.0, kTolerance);
}

TEST(SequenceBound, WhatIsLeftAtTheEndDoesNotComeBack) {
  Trace trace;
  const auto state = add_tensor(trace, 10 * kGB, true);
  const auto workspace = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {state}, {state});
  add_launch(trace, kSecond, {}, {workspace});
  const Machine on = machine(15, 100, 10);
  EXPECT_EQ(stall(in_a_row(trace), on, Copies::kWritten), 0) << "who knows that nobody reads it can lose it";
  EXPECT_NEAR(stall(in_a_row(trace), on, Copies::kKeptClean), 0.5, kTolerance) << "out";
  EXPECT_NEAR(stall(trace, on, Copies::kKeptClean), 1.0, kTolerance) << "and back, if this is a loop";
}

TEST(SequenceBound, WhatIsMadeInBetweenIsWrittenOnce) {
  Trace trace;
  const auto kept = add_tensor(trace, 10 * kGB);
  add_launch(trace, kSecond, {}, {kept});
  for (int i = 0; i < 2; ++i) {
    add_launch(trace, kSecond, {}, {add_tensor(trace, 10 * kGB)});
    add_launch(trace, kSecond, {kept}, {});
  }
  trace = in_a_row(trace);
  const Machine on = machine(15, 100, 10);
  // Out and back, and back once more.
  EXPECT_NEAR(stall(trace, on, Copies::kKeptClean), 0.5 + 0.5 + 0.5, kTolerance);
  EXPECT_NEAR(stall(trace, on, Copies::kWritten), 2 * (0.5 + 0.5), kTolerance);
  // Made before the part that counts, it may have left, and been written, before that.
  EXPECT_NEAR(stall(trace, on, Copies::kKeptClean, 1), 0.5 + 0.5, kTolerance);
  EXPECT_NEAR(stall(trace, on, Copies::kWritten, 1), 0.5 + 0.5 + 0.5, kTolerance);
}

TEST(SequenceBound, OnlyThePartCounts) {
  Trace trace;
  const auto weight = add_tensor(trace, 10 * kGB, true);
  const auto workspace = add_tensor(trace, 10 * kGB);
  for (int i = 0; i < 6; ++i) add_launch(trace, kSecond, i % 2 == 0 ? Indices{weight} : Indices{workspace}, {});
  trace = in_a_row(trace);
  const Bound all = lower_bound(analyse(trace), machine(15, 100, 10));
  EXPECT_EQ(all.ideal_ns, 6 * kSecond);
  EXPECT_NEAR(static_cast<double>(all.stall_ns) / 1e9, 4 * 0.5, kTolerance);
  const Bound part = lower_bound(vitality_of(trace, Copies::kWritten, 4), machine(15, 100, 10));
  EXPECT_EQ(part.ideal_ns, 2 * kSecond);
  EXPECT_NEAR(static_cast<double>(part.stall_ns) / 1e9, 0.5, kTolerance);
}

// Flash alone. Slots: launch 0, gap 0, launch 1, gap 1, …
class FullProgram : public FlashProgram {
 public:
  FullProgram(const Vitality& vitality, const Machine& machine, Copies copies)
      : FlashProgram(vitality, machine), copies_(copies) {
    for (const Vitality::Period& period : vitality.periods) {
      if ((period.needed || vitality.dead == Dead::kStays) && period.bytes > 0) add_period(period);
    }
    for (const auto& [content, leaves] : contents_) add_content(content.second, leaves);
    add_lanes();
    add_memory();
  }

 private:
  static constexpr std::uint32_t kStart = Vitality::kNone;  // before the first slot
  struct Flow {
    std::vector<Column> away_at_start;  // one, if the period begins before the sequence
    std::uint32_t begin = 0;
    std::vector<Column> out, in;  // by slot, from `begin` on
  };

  // What is away at the end of a slot.
  void add_away(Row row, const Flow& flow, std::uint32_t slot) {
    for (const Column column : flow.away_at_start) program_.add_term(row, column, 1);
    for (std::uint32_t t = flow.begin; slot != kStart && t <= slot; ++t) {
      program_.add_term(row, flow.out[t - flow.begin], 1);
      program_.add_term(row, flow.in[t - flow.begin], -1);
    }
  }

  void add_period(const Vitality::Period& period) {
    Flow flow;
    if (period.wraps) {
      flow.away_at_start.push_back(program_.add_unlimited_column(kReach));
    } else {
      flow.begin = 2 * period.after + 1;
    }
    const std::uint32_t last = 2 * period.before - 1;
    const Row all = program_.add_row(0, gigabytes(period.bytes));
    for (const Column column : flow.away_at_start) program_.add_term(all, column, 1);
    for (std::uint32_t t = flow.begin; t <= last; ++t) {
      flow.out.push_back(program_.add_unlimited_column(kReach));
      flow.in.push_back(period.needed ? program_.add_unlimited_column(kReach) : program_.add_column(0));
      program_.add_term(all, flow.out.back(), 1);
      in_[t].push_back(flow.in.back());
      if (copies_ == Copies::kWritten) written_[t].push_back(flow.out.back());
      add_away(program_.add_row(0, t == last && period.needed ? 0 : kReach), flow, t);
    }
    if (copies_ == Copies::kKeptClean) contents_[{period.tensor, period.made}].push_back(flow);
    flows_.push_back(std::move(flow));
  }

  // What has left by the end of a slot has been written by then, in whichever period.
  void add_content(std::uint32_t made, const std::vector<Flow>& leaves) {
    if (made == Vitality::kNone) return;
    const std::uint32_t begin = 2 * made + 1;
    std::vector<Column> writes;
    for (std::uint32_t t = begin; t < slots_; ++t) {
      writes.push_back(program_.add_unlimited_column(kReach));
      written_[t].push_back(writes.back());
    }
    for (const Flow& flow : leaves) {
      for (std::uint32_t i = 0; i < flow.out.size(); ++i) {
        const Row row = program_.add_row(0, Program::kInfinity);
        for (std::uint32_t t = begin; t <= flow.begin + i; ++t) program_.add_term(row, writes[t - begin], 1);
        for (std::uint32_t j = 0; j <= i; ++j) program_.add_term(row, flow.out[j], -1);
      }
    }
  }

  // A launch has its room at its start, the end of the slot before, and at its end.
  void add_memory() {
    for (std::uint32_t k = 0; k < launches_; ++k) {
      for (const std::uint32_t end : {k == 0 ? kStart : 2 * k - 1, 2 * k}) {
        const Row row = add_room(k);
        for (const Flow& flow : flows_) {
          // At the end of its last slot a period is over: nothing of it is away, or it is forgotten.
          const bool open = end == kStart || (end >= flow.begin && end + 1 < flow.begin + flow.out.size());
          if (open) add_away(row, flow, end);
        }
      }
    }
  }

  const Copies copies_;
  std::vector<Flow> flows_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Flow>> contents_;
};

Machine machine_for(const Vitality& vitality, Rng& rng) {
  Machine on = machine(0, 0, 2, 0.5 + static_cast<double>(rng.below(3)), 1);
  if (rng.chance(1, 2)) on.flash_total_bps = 1.2e9;
  const std::uint64_t room = (vitality.peak_vital_bytes - vitality.working_set_bytes_max) / kGB;
  on.device_bytes = vitality.working_set_bytes_max + rng.below(room) * kGB;
  return on;
}

TEST(SequenceBound, IsNeverAboveTheFullProgram) {
  int stalling = 0, equal = 0, parts = 0;
  double bounds = 0, optima = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    Trace trace = in_a_row(random_trace(rng));
    if (rng.chance(1, 2)) free_later(trace, rng);
    const auto launches = static_cast<std::uint32_t>(trace.launches.size());
    const auto first = static_cast<std::uint32_t>(rng.chance(1, 2) ? 0 : rng.below(launches / 2 + 1));
    const Vitality certain = vitality_of(trace, Copies::kWritten, first);
    if (certain.peak_vital_bytes <= certain.working_set_bytes_max) continue;
    const Machine on = machine_for(certain, rng);
    for (const Copies copies : {Copies::kWritten, Copies::kKeptClean}) {
      const Vitality vitality = vitality_of(trace, copies, first);
      const double least = stall(trace, on, copies, first);
      const double optimum = FullProgram(vitality, on, copies).stall();
      EXPECT_LE(least, optimum + kTolerance) << "seed " << seed;
      EXPECT_LE(stall(trace, on, copies, first, 3), least + kTolerance) << "a coarser cut, seed " << seed;
      Machine more = on;
      more.host_bytes = 4 * kGB;
      EXPECT_LE(stall(trace, more, copies, first), least + kTolerance) << "with a host, seed " << seed;
      stalling += optimum > kTolerance ? 1 : 0;
      parts += optimum > kTolerance && first > 0 ? 1 : 0;
      equal += optimum > kTolerance && least > optimum - kTolerance ? 1 : 0;
      bounds += least;
      optima += optimum;
    }
  }
  std::printf("%d bounds that stall, %d of a part, %d equal to the optimum; %.1f %% of all stall\n", stalling, parts,
              equal, 100 * bounds / optima);
  EXPECT_GT(stalling, 100);
  EXPECT_GT(parts, 30);
  EXPECT_GT(bounds, 0.999 * optima);
}

}  // namespace
}  // namespace ebb
