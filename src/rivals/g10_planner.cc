// See g10_planner.h.
#include "rivals/g10_planner.h"

#include <algorithm>
#include <utility>

namespace ebb {
namespace {

using Position = Recording::Position;

constexpr double kLineShare = 0.99;  // of memory is planned for
// What a transfer costs besides bytes on the paper's machine: a page fault to the host, and flash.
constexpr double kFaultNs = 45'000;
constexpr double kFlashNs = 20'000;
constexpr double kIdleTimes = 2.5;  // a tensor leaves if it is idle for this many times its transfer
constexpr double kWrapTimes = 1.5;  // and returns this many ahead of its use, when that is in the next iteration

struct Period {
  std::uint32_t use = 0;
  double bytes = 0;
  std::uint32_t first = 0;  // launches [first, end) do not use the tensor; end > launches: it wraps around
  std::uint32_t end = 0;
  bool next_iteration = false;  // the use that ends it is in the next iteration
  bool handled = false;
};

// Bytes that one lane may still move during each launch, and their sums.
struct Bins {
  std::vector<double> capacity, used, sums;
  double free(std::size_t launch) const { return std::max(capacity[launch] - used[launch], 0.0); }
};

class G10Planner {
 public:
  G10Planner(const Recording& recording, const G10Limits& limits) : recording_(recording), limits_(limits) {
    line_ = kLineShare * static_cast<double>(limits.plan.block_bytes) * limits.plan.frames;
    flash_ = limits.plan.flash_in_ns > 0;
    host_bytes_max_ = static_cast<double>(limits.plan.block_bytes) * limits.plan.host_blocks;
  }

  Plan make() {
    plan_.by_use.assign(recording_.uses_total(), Plan::kStays);
    list_launches();
    list_periods();
    for (std::size_t rounds = periods_.size(); rounds > 0 && over_line(0, launches_.size()); --rounds) {
      sum_up();
      Period* best = rank();
      if (best == nullptr) break;
      best->handled = true;
      if (over_line(best->first, best->end)) place(*best);
    }
    bring_forward();
    finish();
    return std::move(plan_);
  }

 private:
  // An accepted period: it is out from `gone` to `back`.
  struct Choice {
    std::size_t period = 0;
    Tier tier = Tier::kFlash;
    std::uint32_t gone = 0;
    std::uint32_t back = 0;
  };

  void list_launches();
  void list_periods();
  void sum_up();
  Period* rank();
  double area(const Period& period) const;
  void place(Period& period);
  void place_wrapped(const Period& period);
  void place_in(Tier tier, const Period& period);
  bool host_has_room(double bytes) const;
  bool flash_is_full(const Period& period, double until_ns) const;
  void bring_forward();
  void finish();
  bool over_line(std::size_t first, std::size_t end) const;
  std::size_t wrap(std::size_t launch) const { return launch < launches_.size() ? launch : launch - launches_.size(); }
  double ns_of(Tier tier, double bytes) const;
  double bytes_a_ns(Tier tier) const;
  Bins& out(Tier tier) { return bins_[tier == Tier::kHost ? 0 : 1]; }
  Bins& in(Tier tier) { return bins_[tier == Tier::kHost ? 2 : 3]; }
  const Bins& out(Tier tier) const { return bins_[tier == Tier::kHost ? 0 : 1]; }
  const Bins& in(Tier tier) const { return bins_[tier == Tier::kHost ? 2 : 3]; }

  const Recording& recording_;
  const G10Limits limits_;
  double line_ = 0;
  bool flash_ = false;
  double host_bytes_max_ = 0;
  std::vector<Position> launches_;  // their events
  std::vector<double> start_ns_;    // by launch, of two iterations, and the end
  std::vector<double> present_;     // bytes, by launch
  std::vector<double> host_held_;   // bytes, by launch
  std::vector<double> excess_ns_;   // sums over launches of the time of those that do not fit
  std::vector<Period> periods_;
  Bins bins_[4];  // out to host and flash, in from host and flash; those of the host are those of the whole link
  std::vector<Choice> choices_;
  Plan plan_;
};

double G10Planner::bytes_a_ns(Tier tier) const {
  const PlanLimits& plan = limits_.plan;
  const double ns = tier == Tier::kHost ? plan.host_in_ns : plan.flash_in_ns;
  return ns > 0 ? static_cast<double>(plan.block_bytes) / ns : 1e9;
}

double G10Planner::ns_of(Tier tier, double bytes) const {
  return bytes / bytes_a_ns(tier) + kFaultNs + (tier == Tier::kFlash ? kFlashNs : 0);
}

void G10Planner::list_launches() {
  double live = 0;
  for (std::uint32_t i = 0; i < recording_.references(); ++i) {
    if (!recording_.made_here(recording_.reference(i).serial))
      live += static_cast<double>(recording_.reference(i).bytes);
  }
  std::vector<double> ns;
  for (Position i = 0; i < recording_.size(); ++i) {
    const Recording::Event& event = recording_.event(i);
    if (event.kind == Recording::Kind::kLaunch) {
      launches_.push_back(i);
      present_.push_back(live);
      ns.push_back(std::max(static_cast<double>(event.ns), 1.0));
    } else {
      const auto bytes = static_cast<double>(recording_.reference(event.reference).bytes);
      live += event.kind == Recording::Kind::kAllocation ? bytes : -bytes;
    }
  }
  start_ns_.assign(1, 0);
  for (std::size_t i = 0; i < 2 * ns.size(); ++i) start_ns_.push_back(start_ns_.back() + ns[i % ns.size()]);
  host_held_.assign(ns.size(), 0);
  for (const Tier tier : {Tier::kHost, Tier::kFlash}) {
    for (Bins* bins : {&out(tier), &in(tier)}) {
      bins->used.assign(ns.size(), 0);
      const double other = tier == Tier::kHost && limits_.host_beside_flash && flash_ ? bytes_a_ns(Tier::kFlash) : 0;
      for (const double each : ns) bins->capacity.push_back(std::max(bytes_a_ns(tier) - other, 0.0) * each);
    }
  }
}

void G10Planner::list_periods() {
  const auto count = static_cast<std::uint32_t>(launches_.size());
  std::vector<std::uint32_t> launch_of(recording_.size(), 0);
  for (std::uint32_t i = 0; i < count; ++i) launch_of[launches_[i]] = i;
  std::vector<bool> freed(recording_.references(), false);
  for (Position i = 0; i < recording_.size(); ++i) {
    const Recording::Event& event = recording_.event(i);
    if (event.kind == Recording::Kind::kFree && event.reference != Recording::kNone) freed[event.reference] = true;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Recording::Event& event = recording_.event(launches_[i]);
    for (std::uint32_t u = 0; u < event.uses; ++u) {
      const Recording::Use& use = recording_.uses(event)[u];
      const Recording::Reference& reference = recording_.reference(use.reference);
      Position next = use.next;
      if (next == launches_[i]) continue;  // twice in one launch: the last counts
      Period period;
      period.use = event.first_use + u;
      period.bytes = static_cast<double>(reference.bytes);
      period.next_iteration = next == Recording::kNever;
      if (period.next_iteration) {
        if (freed[use.reference]) continue;
        next = !recording_.made_here(reference.serial) ? reference.first : recording_.first_use_after(reference.serial);
        if (next == Recording::kNever) continue;
      }
      period.first = i + 1;
      period.end = launch_of[next] + (period.next_iteration ? count : 0);
      if (period.end <= period.first) continue;
      if (period.first == count) {  // all of it lies in the next iteration
        period.first = 0;
        period.end -= count;
      }
      if (period.end > period.first) periods_.push_back(period);
    }
  }
}

bool G10Planner::over_line(std::size_t first, std::size_t end) const {
  for (std::size_t i = first; i < end; ++i) {
    if (present_[wrap(i)] > line_) return true;
  }
  return false;
}

// The sums that rank() asks again and again.
void G10Planner::sum_up() {
  const std::size_t count = launches_.size();
  excess_ns_.assign(1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const double ns = start_ns_[i + 1] - start_ns_[i];
    excess_ns_.push_back(excess_ns_.back() + (present_[i] > line_ / kLineShare ? ns : 0));
  }
  for (Bins& bins : bins_) {
    bins.sums.assign(1, 0);
    for (std::size_t i = 0; i < count; ++i) bins.sums.push_back(bins.sums.back() + bins.free(i));
  }
}

// Bytes x time that its absence would save, from when half of it is out to when half of it is back.
double G10Planner::area(const Period& period) const {
  const std::size_t count = launches_.size();
  if (period.end > count) {
    const double wrapped = excess_ns_[count] - excess_ns_[period.first] + excess_ns_[period.end - count];
    return period.bytes * wrapped;
  }
  const auto& gone = out(flash_ ? Tier::kFlash : Tier::kHost).sums;
  const auto& back = in(flash_ ? Tier::kFlash : Tier::kHost).sums;
  const auto at = [](const std::vector<double>& sums, std::size_t i) {
    return sums.begin() + static_cast<std::ptrdiff_t>(i);
  };
  const auto half_gone =
      std::lower_bound(at(gone, period.first), at(gone, period.end), gone[period.first] + period.bytes / 2);
  const auto half_back =
      std::upper_bound(at(back, period.first), at(back, period.end), back[period.end] - period.bytes / 2);
  const auto from = half_gone - gone.begin();
  const auto to = half_back - back.begin() - 1;
  return to > from
             ? period.bytes * (excess_ns_[static_cast<std::size_t>(to)] - excess_ns_[static_cast<std::size_t>(from)])
             : 0;
}

Period* G10Planner::rank() {
  Period* best = nullptr;
  std::pair<double, double> most{-1, -1};
  for (Period& period : periods_) {
    if (period.handled) continue;
    const double span = period.bytes * (start_ns_[period.end] - start_ns_[period.first]);
    const std::pair<double, double> value{area(period), span};
    if (value <= most) continue;
    most = value;
    best = &period;
  }
  return best;
}

bool G10Planner::host_has_room(double bytes) const {
  return *std::max_element(host_held_.begin(), host_held_.end()) + bytes <= host_bytes_max_;
}

bool G10Planner::flash_is_full(const Period& period, double until_ns) const {
  const Bins& bins = out(Tier::kFlash);
  for (std::size_t i = period.first; i < period.end && start_ns_[i] < until_ns; ++i) {
    if (bins.free(i) > 0) return false;
  }
  return true;
}

void G10Planner::place(Period& period) {
  const double idle_ns = start_ns_[period.end] - start_ns_[period.first];
  const double flash_ns = ns_of(Tier::kFlash, period.bytes);
  const bool wraps = period.end > launches_.size();
  if (flash_ && idle_ns > kIdleTimes * flash_ns) {
    if (wraps) return place_wrapped(period);
    const bool host = flash_is_full(period, start_ns_[period.first] + flash_ns) && host_has_room(period.bytes);
    return place_in(host ? Tier::kHost : Tier::kFlash, period);
  }
  if (idle_ns <= kIdleTimes * ns_of(Tier::kHost, period.bytes) || !host_has_room(period.bytes)) return;
  if (!wraps) place_in(Tier::kHost, period);
}

// Into the next iteration: by time only.
void G10Planner::place_wrapped(const Period& period) {
  const double ns = ns_of(Tier::kFlash, period.bytes);
  Choice choice{static_cast<std::size_t>(&period - periods_.data()), Tier::kFlash, period.first, period.end};
  while (choice.back > choice.gone + 1 && start_ns_[choice.back] > start_ns_[period.end] - kWrapTimes * ns)
    --choice.back;
  for (std::uint32_t i = choice.gone + 1; i < choice.back; ++i) present_[wrap(i)] -= period.bytes;
  choices_.push_back(choice);
}

// Fills the bins forward from the use before and backward from the use after; nothing if the two meet.
void G10Planner::place_in(Tier tier, const Period& period) {
  const auto room = [&](Bins& of_tier, Bins& link, std::size_t i) {
    return tier == Tier::kHost ? link.free(i) : std::min(of_tier.free(i), link.free(i));
  };
  std::uint32_t gone = period.first;
  for (double left = period.bytes; gone < period.end; ++gone) {
    left -= room(out(tier), out(Tier::kHost), gone);
    if (left <= 0) break;
  }
  std::uint32_t back = period.end;
  for (double left = period.bytes; back > period.first && left > 0;) {
    left -= room(in(tier), in(Tier::kHost), --back);
    if (left > 0 && back == period.first) return;
  }
  if (back <= gone) return;
  const auto fill = [&](Bins& of_tier, Bins& link, std::size_t i, double& left) {
    const double bytes = std::min(left, room(of_tier, link, i));
    if (tier == Tier::kFlash) of_tier.used[i] += bytes;
    if (tier == Tier::kHost || !limits_.host_beside_flash) link.used[i] += bytes;
    left -= bytes;
  };
  double left = period.bytes;
  for (std::uint32_t i = period.first; i <= gone && left > 0; ++i) fill(out(tier), out(Tier::kHost), i, left);
  left = period.bytes;
  for (std::uint32_t i = period.end; i > back && left > 0; --i) fill(in(tier), in(Tier::kHost), i - 1, left);
  if (tier == Tier::kHost) {
    for (std::uint32_t i = period.first; i < period.end; ++i) host_held_[i] += period.bytes;
  }
  for (std::uint32_t i = gone + 1; i < back; ++i) present_[i] -= period.bytes;
  choices_.push_back({static_cast<std::size_t>(&period - periods_.data()), tier, gone, back});
}

// Fetches begin earlier while memory is below the line, those that come first first.
void G10Planner::bring_forward() {
  std::stable_sort(choices_.begin(), choices_.end(),
                   [](const Choice& left, const Choice& right) { return left.back < right.back; });
  for (Choice& choice : choices_) {
    const Period& period = periods_[choice.period];
    if (period.end > launches_.size()) continue;
    while (choice.back > choice.gone + 1 && present_[choice.back - 1] < line_) {
      present_[--choice.back] += period.bytes;
    }
  }
}

void G10Planner::finish() {
  const auto event_at = [&](std::uint32_t launch, bool next_iteration) -> std::uint64_t {
    const bool wraps = launch >= launches_.size();
    return launches_[wrap(launch)] + (wraps || next_iteration ? std::uint64_t{recording_.size()} : 0);
  };
  std::vector<Position> event_of(recording_.uses_total(), 0);
  for (const Position position : launches_) {
    const Recording::Event& event = recording_.event(position);
    for (std::uint32_t i = 0; i < event.uses; ++i) event_of[event.first_use + i] = position;
  }
  for (const Choice& choice : choices_) {
    const Period& period = periods_[choice.period];
    const bool shifted = period.next_iteration && period.end < launches_.size();
    TensorAbsence absence;
    absence.use = period.use;
    absence.blocks = Recording::kNone;  // all of them
    absence.tier = choice.tier;
    absence.after = event_of[period.use];
    absence.before = event_at(period.end, shifted);
    absence.return_from = event_at(choice.back, shifted);
    plan_.absences.push_back(absence);
  }
  std::sort(plan_.absences.begin(), plan_.absences.end(),
            [](const TensorAbsence& left, const TensorAbsence& right) { return left.use < right.use; });
  for (std::uint32_t i = 0; i < plan_.absences.size(); ++i) plan_.by_use[plan_.absences[i].use] = i;
}

}  // namespace

Plan make_g10_plan(const Recording& recording, const G10Limits& limits) { return G10Planner(recording, limits).make(); }

}  // namespace ebb
