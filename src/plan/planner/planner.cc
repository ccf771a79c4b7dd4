// See planner.h.
#include "plan/planner/planner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plan/drafting/draft.h"
#include "plan/planner/forecast.h"

namespace ebb {
namespace {

// Another draft must be so much better than the best so far. A forecast is exact to about a percent where the drafts
// move different blocks; where only the tiers differ, a smaller gain is one.
constexpr double kBetter = 0.99, kBetterTiers = 0.999;
// A draft with a part of everything absent is preferred where a lane has more to do than the launches and nothing, or
// little, is written: real lanes are slower than forecast for few requests, and it has the most under way. Forecasts of
// what is written are not as exact.
constexpr double kBetterRead = 1.1, kBetterWritten = 0.97, kSpreadMore = 0.1;
// Parts of memory that are tried for state.
constexpr std::array<double, 5> kStateShares{0.2, 0.4, 0.6, 0.8, 0.9};
constexpr double kBetterState = 0.995, kBetterWithState = 0.985;
// What is tried for content that is written anyhow; a draft that moves so much less need promise no more than the
// others.
constexpr std::array<double, 2> kOverFactors{8, 32};
constexpr std::array<double, 3> kOverLeads{0.5, 0.25, 0};
constexpr double kBetterWithOver = 0.98, kMovedLess = 0.95;
// What is tried once more, beside whatever else has been taken meanwhile.
constexpr std::array<double, 3> kOldFactorsAgain{1, 2, 4}, kOverFactorsAgain{1, 8, 32}, kAbsentMore{-0.05, 0.05};
constexpr std::array<double, 4> kLeadsAgain{1, 0.5, 0.25, 0};
constexpr std::array<double, 7> kStateSharesAgain{0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9};
constexpr double kBetterAgain = 0.998;
// Blocks are shifted so often at most, and so often without a gain.
constexpr int kShiftsMax = 16, kVainShiftsMax = 8;
constexpr double kWrittenMax = 0.125, kMovedMax = 1.15;

struct Candidate {
  Taste taste;
  std::vector<PieceAbsence> absences;
  std::vector<Cleaning> cleanings;
  double ns = std::numeric_limits<double>::infinity();  // of an iteration, by its forecast and with the toll
};

// A search along one taste after the other, from the best of the one before.
class Search {
 public:
  Search(const Recording& recording, const PlanLimits& limits)
      : recording_(recording), limits_(limits), drafter_(recording, limits) {}

  Plan run() {
    consider({}, 1);
    if (best_.absences.empty()) return hand_out();
    for (const double factor : {2.0, 4.0}) consider_with(kBetter, [&](Taste& taste) { taste.old_factor = factor; });
    if (uses_both_tiers()) {
      for (const double blocks : {32.0, 1024.0})
        consider_with(kBetterTiers, [&](Taste& taste) { taste.patience_blocks = blocks; });
    }
    consider_with(kBetter, [](Taste& taste) { taste.lead_share = 0.5; });
    consider_with(kBetter, [](Taste& taste) { taste.paced = true; });
    consider_spread();
    const Candidate found = best_;
    consider_state();
    consider_shifts();
    consider_over(found);
    consider_again();
    return hand_out();
  }

  Plan run(const Taste& taste) {
    best_ = candidate(taste);
    if (taste.shifted) best_ = shifted(best_);
    return hand_out();
  }

 private:
  Candidate candidate(const Taste& taste) {
    drafter_.draft(taste);
    return drafted(taste);
  }

  Candidate drafted(const Taste& taste) {
    Candidate made{taste, drafter_.absences(), {}};
    made.cleanings = make_cleanings(recording_, drafter_.pieces(), made.absences, drafter_.start_ns(),
                                    {drafter_.block_ns(Tier::kHost), drafter_.block_ns(Tier::kFlash)});
    if (!limits_.clean_host) write_all_to_host(made);
    return made;
  }

  Forecast forecast_of(const Candidate& made) const {
    return forecast(drafter_.start_ns(), drafter_.live_blocks(), made.absences, made.cleanings, limits_);
  }

  void consider(const Taste& taste, double better) {
    Candidate other = candidate(taste);
    other.ns = forecast_of(other).ns + toll_ns(other);
    if (other.ns < better * best_.ns) best_ = std::move(other);
  }

  template <typename F>
  void consider_with(double better, F&& change) {
    Taste taste = best_.taste;
    change(taste);
    if (taste != best_.taste) consider(taste, better);
  }

  // A part of each piece is absent, in place of all of those that are needed last; a little more than must be, so that
  // it is the same part everywhere, although pieces have few blocks.
  void consider_spread() {
    if (best_.ns <= computed_ns() / kBetter) return;  // no lane binds
    const auto& live = drafter_.live_blocks();
    const double missing = 1 - limits_.frames / static_cast<double>(*std::max_element(live.begin(), live.end()));
    Taste taste;
    taste.lead_share = 0;
    taste.paced = true;
    taste.absent_share = std::clamp(missing + kSpreadMore, 0.0, 1.0);
    taste.reserve_blocks = limits_.frames_in_transit;
    const Candidate whole = std::exchange(best_, {});
    consider(taste, 1);
    if (best_.ns >= better_than(whole) * whole.ns) best_ = whole;
  }

  // State stays, and what is needed sooner leaves in its place. The forecast must promise more than it is wrong by.
  void consider_state() {
    if (best_.ns <= computed_ns() / kBetter || !drafter_.has_state()) return;
    const Candidate without = best_;
    for (const double share : kStateShares) {
      consider_with(kBetterState, [&](Taste& taste) { taste.state_share = share; });
    }
    if (best_.taste.state_share > 0) {
      for (const double factor : {1.0, 2.0, 4.0}) {
        consider_with(kBetterState, [&](Taste& taste) { taste.old_factor = factor; });
      }
      consider_with(kBetterState, [](Taste& taste) { taste.lead_share = 0.5; });
    }
    if (best_.ns > kBetterWithState * without.ns) best_ = without;
  }

  // The best of some drafts that follow one another from `made`, the one made last: where launches wait for what lanes
  // bring as many blocks stay as lanes bring in that time, in place of others that come while lanes are idle.
  Candidate shifted(Candidate made) {
    Forecast found = forecast_of(made);
    made.ns = found.ns + toll_ns(made);
    Candidate best = made;
    for (int i = 0, vain = 0; i < kShiftsMax && vain < kVainShiftsMax && found.waited_blocks >= 1; ++i, ++vain) {
      drafter_.shift(made.absences, found.urgent, found.waited_blocks);
      made = drafted(made.taste);
      found = forecast_of(made);
      made.ns = found.ns + toll_ns(made);
      if (made.ns >= best.ns) continue;
      best = made;
      vain = -1;
    }
    best.taste.shifted = true;
    return best;
  }

  void consider_shifts() {
    if (best_.ns <= computed_ns() / kBetter) return;
    drafter_.draft(best_.taste);
    Candidate other = shifted(best_);
    if (other.ns < (writes(best_) ? kBetterWritten : kBetter) * best_.ns) best_ = std::move(other);
  }

  // What is over before it is freed leaves in place of what else would have to be written. It pays where room for what
  // returns is not made long before, which such content is not there to give. Beside the best so far, which began with
  // `found` as well.
  void consider_over(const Candidate& found) {
    if (found.ns <= computed_ns() / kBetter || !drafter_.has_over()) return;
    const Candidate without = std::exchange(best_, found);
    for (const double factor : kOverFactors) {
      for (const double lead_share : kOverLeads) {
        consider_with(kBetterState, [&](Taste& taste) {
          taste.old_factor = 1;
          taste.over_factor = factor;
          taste.lead_share = lead_share;
        });
      }
    }
    if (best_.taste == found.taste) {
      best_ = without;
      return;
    }
    consider_shifts();
    const double better = moved(best_) < kMovedLess * moved(without) ? 1 : kBetterWithOver;
    if (best_.ns >= better * without.ns) best_ = without;
  }

  // What was not better beside the tastes before may be so beside those after. Where there are two tiers forecasts are
  // not as exact.
  void consider_again() {
    if (best_.ns <= computed_ns() / kBetter || uses_both_tiers()) return;
    const Candidate without = best_;
    const double absent_share = best_.taste.absent_share;
    best_.taste.shifted = false;
    sweep_over(kOldFactorsAgain, [](Taste& taste, double factor) { taste.old_factor = factor; });
    if (drafter_.has_over()) {
      sweep_over(kOverFactorsAgain, [](Taste& taste, double factor) { taste.over_factor = factor; });
    }
    sweep_over(kLeadsAgain, [](Taste& taste, double share) { taste.lead_share = share; });
    sweep_over(std::array{false, true}, [](Taste& taste, bool paced) { taste.paced = paced; });
    if (drafter_.has_state()) {
      sweep_over(kStateSharesAgain, [](Taste& taste, double share) { taste.state_share = share; });
    }
    if (absent_share < 1) {
      sweep_over(kAbsentMore, [absent_share](Taste& taste, double more) {
        taste.absent_share = std::clamp(absent_share + more, 0.0, 1.0);
      });
    }
    sweep_over(std::array{0u, limits_.frames_in_transit},
               [](Taste& taste, std::uint32_t blocks) { taste.reserve_blocks = blocks; });
    consider_shifts();
    if (best_.ns >= kBetter * without.ns) best_ = without;
  }

  template <typename Values, typename F>
  void sweep_over(const Values& values, F&& set) {
    for (const auto value : values) consider_with(kBetterAgain, [&](Taste& taste) { set(taste, value); });
  }

  // Blocks that the lanes take, in and out.
  static double moved(const Candidate& candidate) {
    double blocks = 0;
    for (const PieceAbsence& absence : candidate.absences) {
      blocks += absence.unwritten + (absence.needed ? absence.blocks : 0);
    }
    return blocks;
  }

  double toll_ns(const Candidate& candidate) const { return moved(candidate) * limits_.toll_ns; }

  // Whether more leaves with a write than a little.
  static bool writes(const Candidate& candidate) {
    double all = 0, written = 0;
    for (const PieceAbsence& absence : candidate.absences) {
      all += absence.blocks;
      written += absence.unwritten;
    }
    return written > kWrittenMax * all;
  }

  // How much better the spread draft, the best so far, must be than `whole`; above 1: it may be worse.
  double better_than(const Candidate& whole) const {
    if (writes(whole)) return kBetterWritten;
    double all = 0, lane_ns = 0;
    for (const PieceAbsence& absence : whole.absences) {
      all += absence.blocks;
      lane_ns += absence.needed ? absence.blocks * drafter_.block_ns(absence.tier) : 0;
    }
    double spread = 0;
    for (const PieceAbsence& absence : best_.absences) spread += absence.blocks;
    if (spread > kMovedMax * all) return kBetterWritten;
    return lane_ns > computed_ns() ? kBetterRead : kBetter;
  }

  double computed_ns() const { return drafter_.start_ns()[recording_.size()]; }

  static void write_all_to_host(Candidate& candidate) {
    for (PieceAbsence& absence : candidate.absences) {
      if (absence.tier == Tier::kHost) absence.unwritten = absence.blocks;
    }
    std::erase_if(candidate.cleanings, [](const Cleaning& cleaning) { return cleaning.tier == Tier::kHost; });
  }

  bool uses_both_tiers() const {
    const auto on_flash = [](const PieceAbsence& absence) { return absence.tier == Tier::kFlash; };
    return limits_.host_blocks > 0 && std::any_of(best_.absences.begin(), best_.absences.end(), on_flash);
  }

  Plan hand_out();
  void hand_out_stays(Plan& plan) const;

  const Recording& recording_;
  const PlanLimits limits_;
  Drafter drafter_;
  Candidate best_;
};

// The plan in terms of tensors: by use, and relative to the tensor's first block.
Plan Search::hand_out() {
  const Pieces& pieces = drafter_.pieces();
  Plan plan;
  plan.by_use.assign(recording_.uses_total(), Plan::kStays);
  for (const PieceAbsence& absence : best_.absences) {
    const Pieces::Touch& touch = pieces.touch(absence.touch);
    TensorAbsence out{absence};
    out.use = touch.use;
    out.first_block = pieces.offset(absence.after, touch) + pieces[touch.piece].blocks.count - absence.blocks;
    if (plan.by_use[touch.use] == Plan::kStays)
      plan.by_use[touch.use] = static_cast<std::uint32_t>(plan.absences.size());
    plan.absences.push_back(out);
  }
  hand_out_stays(plan);
  plan.cleanings = std::move(best_.cleanings);
  plan.taste = best_.taste;
  return plan;
}

void Search::hand_out_stays(Plan& plan) const {
  if (best_.taste.state_share <= 0) return;
  const Pieces& pieces = drafter_.pieces();
  const std::vector<std::uint32_t> staying = drafter_.staying(best_.taste.state_share);
  for (Recording::Position event = 0; event < recording_.size(); ++event) {
    for (std::uint32_t i = pieces.first_touch(event); i < pieces.end_touch(event); ++i) {
      const Pieces::Touch& touch = pieces.touch(i);
      const std::uint32_t blocks = staying[touch.piece];
      if (blocks > 0 && touch.needed) {
        plan.stays.push_back({touch.use, pieces.offset(event, touch), blocks, touch.next});
      }
    }
  }
}

}  // namespace

Plan make_plan(const Recording& recording, const PlanLimits& limits) { return Search(recording, limits).run(); }

Plan make_plan(const Recording& recording, const PlanLimits& limits, const Taste& taste) {
  return Search(recording, limits).run(taste);
}

}  // namespace ebb
