// The bound beside the full program, in which every period and every content has variables of its own: what the bound
// gains in size by not telling bytes apart may make it smaller, never larger.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "bound/lower_bound.h"
#include "bound/program.h"
#include "bound/test/small_traces.h"

namespace ebb {
namespace {

using Column = Program::Column;
using Row = Program::Row;

constexpr double kTolerance = 1e-5;  // seconds
constexpr double kReach = 1e3;       // more GB, or seconds, than any flow or stall of these traces

double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

// Flash alone, with clean copies. Slots: launch 0, gap 0, launch 1, gap 1, …, in a circle.
class FullProgram {
 public:
  FullProgram(const Vitality& vitality, const Machine& machine)
      : vitality_(vitality),
        machine_(machine),
        launches_(static_cast<std::uint32_t>(vitality.vital_bytes.size())),
        slots_(2 * launches_),
        in_(slots_),
        written_(slots_) {
    for (std::uint32_t t = 0; t < slots_; ++t) stalls_.push_back(program_.add_unlimited_column(kReach, t % 2));
    for (std::uint32_t t = 0; t < slots_; t += 2) program_.add_term(program_.add_row(0, 0), stalls_[t], 1);
    for (const Vitality::Period& period : vitality.periods) {
      if ((period.needed || vitality.dead == Dead::kStays) && period.bytes > 0) add_period(period);
    }
    for (const auto& [content, leaves] : contents_) add_content(content.second, leaves);
    add_lanes();
    add_memory();
  }
  double stall() {
    EXPECT_TRUE(program_.solve(Program::Method::kSimplex));
    return program_.bound();
  }

 private:
  struct Flow {
    std::uint32_t begin = 0;
    std::vector<Column> by_slot;  // from `begin` on
  };
  std::uint32_t past(std::uint32_t from, std::uint32_t to) const { return (to + slots_ - from) % slots_; }

  void add_period(const Vitality::Period& period) {
    Flow out{2 * period.after + 1, {}}, in = out;
    const std::uint32_t last = past(out.begin, (2 * period.before + slots_ - 1) % slots_);
    const Row all = program_.add_row(0, gigabytes(period.bytes)), returned = program_.add_row(0, 0);
    for (std::uint32_t i = 0; i <= last; ++i) {
      out.by_slot.push_back(program_.add_unlimited_column(kReach));
      in.by_slot.push_back(period.needed ? program_.add_unlimited_column(kReach) : program_.add_column(0));
      program_.add_term(all, out.by_slot[i], 1);
      if (period.needed) program_.add_term(returned, out.by_slot[i], 1);
      if (period.needed) program_.add_term(returned, in.by_slot[i], -1);
      in_[(in.begin + i) % slots_].push_back(in.by_slot[i]);
      const Row away = program_.add_row(0, kReach);
      add_away(away, out, in, i, 1);
    }
    contents_[{period.tensor, period.made}].push_back(out);
    periods_.emplace_back(out, in);
  }
  void add_away(Row row, const Flow& out, const Flow& in, std::uint32_t last, double factor) {
    for (std::uint32_t i = 0; i <= last; ++i) {
      program_.add_term(row, out.by_slot[i], factor);
      program_.add_term(row, in.by_slot[i], -factor);
    }
  }

  // What has left by the end of a slot has been written by then, in whichever period.
  void add_content(std::uint32_t made, const std::vector<Flow>& leaves) {
    if (made == Vitality::kNone) return;
    Flow writes{2 * made + 1, {}};
    for (std::uint32_t i = 0; i < slots_; ++i) {
      writes.by_slot.push_back(program_.add_unlimited_column(kReach));
      written_[(writes.begin + i) % slots_].push_back(writes.by_slot[i]);
    }
    for (const Flow& out : leaves) {
      const std::uint32_t since_made = past(writes.begin, out.begin);
      for (std::uint32_t i = 0; i < out.by_slot.size(); ++i) {
        const Row row = program_.add_row(0, Program::kInfinity);
        for (std::uint32_t j = 0; j <= since_made + i; ++j) program_.add_term(row, writes.by_slot[j], 1);
        for (std::uint32_t j = 0; j <= i; ++j) program_.add_term(row, out.by_slot[j], -1);
      }
    }
  }

  void add_lanes() {
    const auto limit = [&](std::uint32_t t, std::initializer_list<const std::vector<Column>*> flows, double bps) {
      const double seconds =
          t % 2 == 1 ? 0 : static_cast<double>(vitality_.start_ns[t / 2 + 1] - vitality_.start_ns[t / 2]) * 1e-9;
      const Row row = program_.add_row(-Program::kInfinity, seconds * bps * 1e-9);
      for (const auto* flow : flows) {
        for (const Column column : *flow) program_.add_term(row, column, 1);
      }
      program_.add_term(row, stalls_[t], -bps * 1e-9);
    };
    for (std::uint32_t t = 0; t < slots_; ++t) {
      limit(t, {&in_[t]}, std::min(machine_.device_link_bps, machine_.flash_read_bps));
      limit(t, {&written_[t]}, std::min(machine_.device_link_bps, machine_.flash_write_bps));
      if (machine_.flash_total_bps > 0) limit(t, {&in_[t], &written_[t]}, machine_.flash_total_bps);
    }
  }

  // A launch has its room at its start, the end of the slot before, and at its end.
  void add_memory() {
    for (std::uint32_t k = 0; k < launches_; ++k) {
      for (const std::uint32_t end : {(2 * k + slots_ - 1) % slots_, 2 * k}) {
        const Row row = program_.add_row(gigabytes(vitality_.vital_bytes[k]) - gigabytes(machine_.device_bytes),
                                         Program::kInfinity);
        for (const auto& [out, in] : periods_) {
          const std::uint32_t at = past(out.begin, end);
          if (at + 1 < out.by_slot.size()) add_away(row, out, in, at, 1);
        }
      }
    }
  }

  const Vitality& vitality_;
  const Machine& machine_;
  const std::uint32_t launches_, slots_;
  Program program_;
  std::vector<Column> stalls_;
  std::vector<std::vector<Column>> in_, written_;  // by slot
  std::vector<std::pair<Flow, Flow>> periods_;     // what leaves, what returns
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Flow>> contents_;
};

void compare(Dead dead) {
  int stalling = 0, equal = 0;
  double bounds = 0, optima = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    Trace trace = random_trace(rng);
    if (dead == Dead::kStays) free_later(trace, rng);
    const Vitality vitality = analyse(trace, 1, dead);
    if (vitality.peak_vital_bytes <= vitality.working_set_bytes_max) continue;
    Machine on = machine(0, 0, 2, 0.5 + static_cast<double>(rng.below(3)), 1);
    if (rng.chance(1, 2)) on.flash_total_bps = 1.2e9;
    const std::uint64_t room = (vitality.peak_vital_bytes - vitality.working_set_bytes_max) / kGB;
    on.device_bytes = vitality.working_set_bytes_max + rng.below(room) * kGB;
    const Bound bound = lower_bound(vitality, on);
    ASSERT_TRUE(bound.outcome == Bound::Outcome::kBounded) << "seed " << seed;
    const double least = static_cast<double>(bound.stall_ns) * 1e-9;
    const double optimum = FullProgram(vitality, on).stall();
    EXPECT_LE(least, optimum + kTolerance) << "seed " << seed;
    stalling += optimum > kTolerance ? 1 : 0;
    equal += optimum > kTolerance && least > optimum - kTolerance ? 1 : 0;
    bounds += least;
    optima += optimum;
  }
  std::printf("%d traces that stall, %d with equal bounds; %.1f %% of all stall\n", stalling, equal,
              100 * bounds / optima);
  EXPECT_GT(stalling, 100);
}

TEST(FullProgram, IsNeverBelowTheBound) { compare(Dead::kVanishes); }
TEST(FullProgram, IsNeverBelowTheBoundIfDeadContentStays) { compare(Dead::kStays); }

}  // namespace
}  // namespace ebb
