// The bound beside the full program, in which every period and every content has variables of its own: what the bound
// gains in size by not telling bytes apart may make it smaller, never larger.
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

// Flash alone, with clean copies. Slots: launch 0, gap 0, launch 1, gap 1, …, in a circle.
class FullProgram : public FlashProgram {
 public:
  FullProgram(const Vitality& vitality, const Machine& machine) : FlashProgram(vitality, machine) {
    for (const Vitality::Period& period : vitality.periods) {
      if ((period.needed || vitality.dead == Dead::kStays) && period.bytes > 0) add_period(period);
    }
    for (const auto& [content, leaves] : contents_) add_content(content.second, leaves);
    add_lanes();
    add_memory();
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

  // A launch has its room at its start, the end of the slot before, and at its end.
  void add_memory() {
    for (std::uint32_t k = 0; k < launches_; ++k) {
      for (const std::uint32_t end : {(2 * k + slots_ - 1) % slots_, 2 * k}) {
        const Row row = add_room(k);
        for (const auto& [out, in] : periods_) {
          const std::uint32_t at = past(out.begin, end);
          if (at + 1 < out.by_slot.size()) add_away(row, out, in, at, 1);
        }
      }
    }
  }

  std::vector<std::pair<Flow, Flow>> periods_;  // what leaves, what returns
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
  EXPECT_GT(bounds, 0.999 * optima);
}

TEST(FullProgram, IsNeverBelowTheBound) { compare(Dead::kVanishes); }
TEST(FullProgram, IsNeverBelowTheBoundIfDeadContentStays) { compare(Dead::kStays); }

}  // namespace
}  // namespace ebb
