// See draft.h. Here: on which tier absences are, and when they end.
#include <algorithm>
#include <array>

#include "plan/drafting/draft.h"

namespace ebb {

// Where a lane has more to bring than the launches leave it time for, they wait, each in proportion to what it needs.
void Drafter::pace() {
  std::array<std::vector<double>, kTiersBelow> needs;  // by tier and event
  std::array<double, kTiersBelow> all{};
  for (auto& need : needs) need.assign(size_, 0);
  for (const PieceAbsence& absence : absences_) {
    if (!absence.needed) continue;
    const double ns = absence.blocks * block_ns(absence.tier);
    needs[index_below(absence.tier)][absence.before % size_] += ns;
    all[index_below(absence.tier)] += ns;
  }
  const auto slowest = static_cast<std::size_t>(std::max_element(all.begin(), all.end()) - all.begin());
  const double waits = std::max(all[slowest] - computed_ns_[size_], 0.0);
  for (std::size_t i = 0; i + 1 < start_ns_.size(); ++i) {
    const double wait = waits > 0 ? waits * needs[slowest][i % size_] / all[slowest] : 0;
    start_ns_[i + 1] = start_ns_[i] + (computed_ns_[i + 1] - computed_ns_[i]) + wait;
  }
}

// Blocks absent at every event if every absence lasts from its use to the next.
std::vector<std::int64_t> Drafter::absent_blocks() const {
  std::vector<std::int64_t> changes(2 * std::size_t{size_} + 1, 0);
  for (const PieceAbsence& absence : absences_) {
    changes[absence.after + std::size_t{1}] += absence.blocks;
    changes[absence.before] -= absence.blocks;
  }
  std::vector<std::int64_t> absent(size_, 0);
  std::int64_t now = 0;
  for (std::size_t i = 0; i < 2 * std::size_t{size_}; ++i) absent[i % size_] += now += changes[i];
  return absent;
}

// Host memory first. What it cannot hold goes to flash, which is slow: so that its lane is busy from the beginning,
// those absences are taken, in the order in which they begin, for which the lane is free soon enough.
void Drafter::choose_tiers() {
  for (PieceAbsence& absence : absences_) absence.tier = limits_.host_blocks > 0 ? Tier::kHost : Tier::kFlash;
  if (limits_.host_blocks == 0 || limits_.flash_in_ns <= 0) return;
  const auto host_blocks = static_cast<std::int64_t>(limits_.host_blocks);
  EventBlocks held(absent_blocks());
  for (double patience_ns = taste_.patience_blocks * limits_.flash_in_ns;; patience_ns *= 2) {
    const std::uint64_t peak = held.fullest();
    std::int64_t most = held.at(peak);
    if (most <= host_blocks) return;
    double lane_ns = 0;  // when the lane is through with what it has
    for (PieceAbsence& absence : absences_) {
      const double begin_ns = start_ns_[absence.after + std::size_t{1}];
      const double through_ns = std::max(lane_ns, begin_ns) + absence.blocks * limits_.flash_in_ns;
      if (absence.tier == Tier::kHost) {
        const bool covers = absence.before > peak + (absence.after < peak ? 0 : std::uint64_t{size_});
        if (most <= host_blocks || !covers || lane_ns > begin_ns + patience_ns) continue;
        absence.tier = Tier::kFlash;
        held.add(absence.after + std::uint64_t{1}, absence.before, -std::int64_t{absence.blocks});
        most -= absence.blocks;
      }
      lane_ns = through_ns;
    }
  }
}

// Blocks present at every event, likewise.
EventBlocks Drafter::present_blocks() const {
  std::vector<std::int64_t> present = absent_blocks();
  for (std::size_t i = 0; i < present.size(); ++i) {
    present[i] = std::max<std::int64_t>(static_cast<std::int64_t>(live_blocks_[i]) - present[i], 0);
  }
  return EventBlocks(present);
}

// For the next round: when each fetch should begin.
void Drafter::claim_early(const std::vector<std::uint32_t>& order, const std::vector<double>& lead_ns) {
  for (auto& touches : early_) touches.clear();
  for (const std::uint32_t index : order) {
    const PieceAbsence& absence = absences_[index];
    const double begin_ns = start_ns_[absence.before] - taste_.lead_share * lead_ns[index];
    const auto first = start_ns_.begin() + absence.after + 1;
    const auto last = start_ns_.begin() + static_cast<std::ptrdiff_t>(absence.before);
    const auto later = std::upper_bound(first, last, begin_ns);
    const auto from = static_cast<std::uint64_t>((later == first ? first : later - 1) - start_ns_.begin());
    early_[from < size_ ? from : from - size_].push_back(absence.touch);
  }
}

// Its fetch begins so long before its use if there is room, else as early as there is; not later than so far.
void Drafter::return_earlier(PieceAbsence& absence, double lead_ns, EventBlocks& present) const {
  const std::uint64_t first = absence.after + std::uint64_t{1}, so_far = absence.return_from;
  if (so_far <= first) return;
  const auto times = std::span(start_ns_).subspan(first, so_far - first + 1);
  const auto later = std::partition_point(times.begin(), times.end(),
                                          [&](double ns) { return start_ns_[absence.before] - ns >= lead_ns; });
  std::uint64_t from = first + static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(later - times.begin(), 1) - 1);
  const auto room = static_cast<std::int64_t>(limits_.frames) - absence.blocks;
  const std::uint64_t full = present.last_above(from, so_far, room);
  if (full != EventBlocks::kNone) from = full + 1;
  present.add(from, so_far, absence.blocks);
  absence.return_from = from;
}

// When each fetch begins: backward from the deadlines, every lane one after the other; then earlier, in the order of
// the deadlines, as far as there is room. Times are those of an iteration without waits; the iteration repeats.
void Drafter::schedule() {
  const double total_ns = start_ns_[size_];
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < absences_.size(); ++i) {
    if (absences_[i].needed) order.push_back(i);
  }
  const auto due = [&](std::uint32_t i) { return absences_[i].before % size_; };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return due(a) > due(b); });
  std::vector<double> lead_ns(absences_.size(), 0);
  for (const Tier tier : {Tier::kHost, Tier::kFlash}) {
    double free_ns = 2 * total_ns;  // when the lane must have begun what comes after, in the time of the first turn
    for (const int turn : {0, 1}) {
      for (const std::uint32_t index : order) {
        const PieceAbsence& absence = absences_[index];
        if (absence.tier != tier) continue;
        const double end_ns = start_ns_[due(index)] + total_ns * (1 - turn);
        free_ns = std::min(free_ns, end_ns) - absence.blocks * block_ns(tier);
        lead_ns[index] = end_ns - free_ns;
      }
    }
  }
  claim_early(order, lead_ns);
  EventBlocks present = present_blocks();
  const auto advance = [&](PieceAbsence& absence, double lead) { return_earlier(absence, lead, present); };
  std::reverse(order.begin(), order.end());
  for (const std::uint32_t index : order) {
    PieceAbsence& absence = absences_[index];
    advance(absence, lead_ns[index]);
  }
  // What comes over the slow lane has the first choice of the room that is left.
  for (const Tier tier : {Tier::kFlash, Tier::kHost}) {
    for (const std::uint32_t index : order) {
      if (absences_[index].tier == tier) advance(absences_[index], total_ns);
    }
  }
}

}  // namespace ebb
