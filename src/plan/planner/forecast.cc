// See forecast.h.
#include "plan/planner/forecast.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace ebb {
namespace {

constexpr int kTurns = 3;  // the last one counts: by then it repeats
// Blocks that a lane passes at once; of what is only cleaned fewer, since what leaves comes first.
constexpr std::uint32_t kAtOnce = 16, kCleanedAtOnce = 2;
constexpr double kForever = std::numeric_limits<double>::infinity();

class Forecaster {
 public:
  Forecaster(std::span<const double> start_ns, std::span<const std::uint64_t> live_blocks,
             std::span<const PieceAbsence> absences, std::span<const Cleaning> cleanings, const PlanLimits& limits)
      : start_ns_(start_ns),
        live_blocks_(live_blocks),
        absences_(absences),
        cleanings_(cleanings),
        limits_(limits),
        size_(live_blocks.size()),
        journeys_(absences.size()),
        cleaned_(absences.size(), 0),
        returns_at_(size_),
        ends_at_(size_) {
    for (std::uint32_t i = 0; i < absences.size(); ++i) {
      if (absences[i].needed) returns_at_[absences[i].return_from % size_].push_back(i);
      ends_at_[absences[i].before % size_].push_back(i);
    }
  }

  Forecast run() {
    double before_ns = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      before_ns = now_ns_;
      forecast_ = {0, std::vector<bool>(absences_.size(), false), 0};
      next_absence_ = next_cleaning_ = 0;
      for (std::size_t event = 0; event < size_; ++event, ++now_) step(event);
    }
    forecast_.ns = now_ns_ - before_ns;
    return std::move(forecast_);
  }

 private:
  // An absence in one iteration; in blocks.
  struct Journey {
    bool ended = true;
    std::uint64_t before = 0, return_from = 0;  // events, counted from the first turn
    std::uint32_t gone = 0;                     // have left
    std::uint32_t back = 0;                     // of them: have a frame again
    std::uint32_t arrived = 0;                  // of them: with their content
    std::uint32_t unwritten = 0;                // still to be written when they leave
  };
  struct Lane {
    double done_ns = kForever;
    std::uint32_t absence = 0;
    std::uint32_t blocks = 0;
    bool stays = false;  // what it writes was only cleaned
  };
  struct Entry {
    std::uint64_t event = 0;
    std::uint32_t index = 0;
    std::uint64_t until = 0;  // for cleanings
    std::uint32_t left = 0;   // likewise: blocks
    // On top of a heap is the last event.
    friend bool operator<(const Entry& a, const Entry& b) { return a.event < b.event; }
  };
  using Heap = std::vector<Entry>;

  static void push(Heap& heap, const Entry& entry) {
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end());
  }
  static void pop(Heap& heap) {
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
  }
  static constexpr std::uint64_t kSoonest = ~0ull;  // minus an event: the first event on top

  void step(std::size_t event);
  void end_absences(std::size_t event);
  void begin_journeys(std::size_t event);
  bool ready(std::size_t event) const;
  void wait(std::size_t event);
  void blame(double ns);
  void blame(ebb::Lane which);
  void evict_unplanned(std::int64_t blocks);
  void pass_time(double ns);
  void start_lanes(bool waiting);
  bool start_out(Tier tier);
  void start_clean(Tier tier);
  void start_in(Tier tier, bool waiting);
  // Take their turn on what the lane needs; when they will be through.
  double pass_out(Tier tier, std::uint32_t blocks);
  double pass_in(Tier tier, std::uint32_t blocks);
  double flash_out_ns() const { return limits_.flash_out_ns > 0 ? limits_.flash_out_ns : limits_.flash_in_ns; }
  std::uint32_t leaving_now(std::uint32_t index) const;
  void complete(std::size_t lane);
  std::size_t first_done() const;
  double pass(double& server_ns, double ns) const { return server_ns = std::max(server_ns, now_ns_) + ns; }
  double pass_flash(double& direction_ns, double ns, std::uint32_t blocks) {
    return std::max(pass(direction_ns, ns), pass(flash_both_ns_, blocks * limits_.flash_both_ns));
  }
  Lane& lane(ebb::Lane which) { return lanes_[static_cast<std::size_t>(which)]; }
  std::int64_t free() const {
    return static_cast<std::int64_t>(limits_.frames + limits_.frames_in_transit) - live_ + out_;
  }

  const std::span<const double> start_ns_;
  const std::span<const std::uint64_t> live_blocks_;
  const std::span<const PieceAbsence> absences_;
  const std::span<const Cleaning> cleanings_;
  const PlanLimits limits_;
  const std::uint64_t size_;
  std::vector<Journey> journeys_;                       // by absence
  std::vector<std::uint32_t> cleaned_;                  // blocks of the absence to come
  std::vector<std::vector<std::uint32_t>> returns_at_;  // by event: absences
  std::vector<std::vector<std::uint32_t>> ends_at_;
  std::array<Heap, kTiersBelow> leaving_, cleaning_, returning_;
  std::array<Lane, kLanes> lanes_;
  std::array<std::vector<std::uint32_t>, kLanes> passed_;  // absences, since the lane was idle
  Forecast forecast_;
  double link_in_ns_ = 0, link_out_ns_ = 0, flash_in_ns_ = 0, flash_out_ns_ = 0, flash_both_ns_ = 0;  // when free
  double now_ns_ = 0;
  std::uint64_t now_ = 0;  // the event, counted from the first turn
  std::int64_t live_ = 0;
  std::int64_t out_ = 0;        // live blocks without frames
  std::int64_t unplanned_ = 0;  // of them: those that no plan has sent away
  std::uint32_t next_absence_ = 0, next_cleaning_ = 0;
};

void Forecaster::step(std::size_t event) {
  live_ = static_cast<std::int64_t>(live_blocks_[event]);
  end_absences(event);
  for (const std::uint32_t index : returns_at_[event]) {
    const Journey& journey = journeys_[index];
    if (!journey.ended) {
      push(returning_[index_below(absences_[index].tier)], {kSoonest - journey.before, index});
    }
  }
  if (!ready(event)) wait(event);
  for (const std::uint32_t index : ends_at_[event]) journeys_[index].ended = true;
  pass_time(start_ns_[event + 1] - start_ns_[event]);
  begin_journeys(event);
  const std::int64_t again = std::clamp<std::int64_t>(free(), 0, unplanned_);
  out_ -= again;
  unplanned_ -= again;
}

// What dies while it is away has no frame to give back.
void Forecaster::end_absences(std::size_t event) {
  for (const std::uint32_t index : ends_at_[event]) {
    Journey& journey = journeys_[index];
    if (journey.ended || absences_[index].needed) continue;
    journey.ended = true;
    out_ -= journey.gone - journey.back;
  }
}

void Forecaster::begin_journeys(std::size_t event) {
  const std::uint64_t base = now_ - event;
  for (; next_absence_ < absences_.size() && absences_[next_absence_].after == event; ++next_absence_) {
    const PieceAbsence& absence = absences_[next_absence_];
    Journey& journey = journeys_[next_absence_];
    journey = {.ended = false, .before = base + absence.before, .return_from = base + absence.return_from};
    journey.unwritten = absence.unwritten - std::min(absence.unwritten, cleaned_[next_absence_]);
    cleaned_[next_absence_] = 0;
    push(leaving_[index_below(absence.tier)], {journey.before, next_absence_});
  }
  for (; next_cleaning_ < cleanings_.size() && cleanings_[next_cleaning_].after == event; ++next_cleaning_) {
    const Cleaning& cleaning = cleanings_[next_cleaning_];
    push(cleaning_[index_below(cleaning.tier)],
         {kSoonest - (base + cleaning.leaves), cleaning.absence, base + cleaning.until, cleaning.blocks});
  }
}

// All that it uses is there, and frames for what it makes.
bool Forecaster::ready(std::size_t event) const {
  if (free() < 0) return false;
  return std::all_of(ends_at_[event].begin(), ends_at_[event].end(), [&](std::uint32_t index) {
    const Journey& journey = journeys_[index];
    return journey.ended || (journey.arrived == journey.gone && leaving_now(index) == 0);
  });
}

void Forecaster::wait(std::size_t event) {
  for (;;) {
    start_lanes(true);
    if (ready(event)) return;
    const std::size_t next = first_done();
    if (lanes_[next].done_ns == kForever) break;
    blame(lanes_[next].done_ns - now_ns_);
    complete(next);
  }
  if (free() < 0) evict_unplanned(-free());
}

// A launch waits so long. Whatever a lane has passed without a pause until now has delayed what it waits for: content,
// or frames; and what shares the flash device with that.
void Forecaster::blame(double ns) {
  for (const Tier tier : {Tier::kHost, Tier::kFlash}) {
    const double block_ns = tier == Tier::kHost ? limits_.host_in_ns : limits_.flash_in_ns;
    const bool in = lane(lane_in(tier)).done_ns != kForever, out = lane(lane_out(tier)).done_ns != kForever;
    const bool shared = tier == Tier::kFlash && limits_.flash_both_ns > 0;
    if (in) blame(lane_in(tier));
    if (out && (!in || shared || free() < 0)) blame(lane_out(tier));
    if ((in || out) && block_ns > 0) forecast_.waited_blocks += ns / block_ns;
  }
}

void Forecaster::blame(ebb::Lane which) {
  auto& passed = passed_[static_cast<std::size_t>(which)];
  for (const std::uint32_t index : passed) forecast_.urgent[index] = true;
  passed.clear();
}

// Nothing leaves by plan: the engine makes room, and brings what it took when there is some again.
void Forecaster::evict_unplanned(std::int64_t blocks) {
  const Tier tier = limits_.host_blocks > 0 ? Tier::kHost : Tier::kFlash;
  const auto count = static_cast<std::uint32_t>(blocks);
  static_cast<void>(pass_in(tier, count));
  static_cast<void>(pass_out(tier, count));
  now_ns_ += count * (tier == Tier::kHost ? limits_.host_in_ns : flash_out_ns());
  out_ += blocks;
  unplanned_ += blocks;
}

void Forecaster::pass_time(double ns) {
  const double until_ns = now_ns_ + ns;
  for (;;) {
    start_lanes(false);
    const std::size_t next = first_done();
    if (lanes_[next].done_ns > until_ns) break;
    complete(next);
  }
  now_ns_ = until_ns;
}

std::size_t Forecaster::first_done() const {
  const auto sooner = [](const Lane& a, const Lane& b) { return a.done_ns < b.done_ns; };
  return static_cast<std::size_t>(std::min_element(lanes_.begin(), lanes_.end(), sooner) - lanes_.begin());
}

void Forecaster::start_lanes(bool waiting) {
  for (const Tier tier : {Tier::kHost, Tier::kFlash}) {
    if (lane(lane_out(tier)).done_ns == kForever && !start_out(tier)) start_clean(tier);
    if (lane(lane_in(tier)).done_ns == kForever) start_in(tier, waiting);
    for (const ebb::Lane each : {lane_out(tier), lane_in(tier)}) {
      if (lane(each).done_ns == kForever) passed_[static_cast<std::size_t>(each)].clear();
    }
  }
}

double Forecaster::pass_out(Tier tier, std::uint32_t blocks) {
  const double link_ns = pass(link_out_ns_, blocks * limits_.host_in_ns);
  return tier == Tier::kHost ? link_ns : std::max(link_ns, pass_flash(flash_out_ns_, blocks * flash_out_ns(), blocks));
}

double Forecaster::pass_in(Tier tier, std::uint32_t blocks) {
  const double link_ns = pass(link_in_ns_, blocks * limits_.host_in_ns);
  return tier == Tier::kHost ? link_ns
                             : std::max(link_ns, pass_flash(flash_in_ns_, blocks * limits_.flash_in_ns, blocks));
}

// What is needed last leaves first; what has a good copy at once. What is to return by now stays.
bool Forecaster::start_out(Tier tier) {
  Heap& heap = leaving_[index_below(tier)];
  while (!heap.empty()) {
    const std::uint32_t index = heap.front().index;
    Journey& journey = journeys_[index];
    if (!journey.ended && now_ < journey.return_from && journey.gone < absences_[index].blocks) {
      const std::uint32_t left = absences_[index].blocks - journey.gone;
      if (left > journey.unwritten) {
        journey.gone += left - journey.unwritten;
        out_ += left - journey.unwritten;
        continue;
      }
      const std::uint32_t blocks = std::min(left, kAtOnce);
      lane(lane_out(tier)) = {pass_out(tier, blocks), index, blocks, false};
      passed_[static_cast<std::size_t>(lane_out(tier))].push_back(index);
      return true;
    }
    pop(heap);
  }
  return false;
}

void Forecaster::start_clean(Tier tier) {
  Heap& heap = cleaning_[index_below(tier)];
  while (!heap.empty()) {
    Entry& entry = heap.front();
    const std::uint32_t wanted = absences_[entry.index].unwritten;
    const std::uint32_t cleaned = cleaned_[entry.index];
    if (entry.until >= now_ && entry.left > 0 && cleaned < wanted) {
      const std::uint32_t blocks = std::min({entry.left, wanted - cleaned, kCleanedAtOnce});
      entry.left -= blocks;
      lane(lane_out(tier)) = {pass_out(tier, blocks), entry.index, blocks, true};
      return;
    }
    pop(heap);
  }
}

// What is needed first comes first, into free frames; a launch that waits takes them from somebody.
void Forecaster::start_in(Tier tier, bool waiting) {
  Heap& heap = returning_[index_below(tier)];
  while (!heap.empty()) {
    const std::uint32_t index = heap.front().index;
    Journey& journey = journeys_[index];
    if (!journey.ended && journey.back < journey.gone) {
      const bool urgent = waiting && journey.before <= now_;
      const std::int64_t frames = urgent ? std::max<std::int64_t>(free(), 1) : free();
      if (frames <= 0) return;
      const auto blocks =
          static_cast<std::uint32_t>(std::min<std::int64_t>({journey.gone - journey.back, kAtOnce, frames}));
      journey.back += blocks;
      out_ -= blocks;
      lane(lane_in(tier)) = {pass_in(tier, blocks), index, blocks, false};
      passed_[static_cast<std::size_t>(lane_in(tier))].push_back(index);
      return;
    }
    if (leaving_now(index) > 0 && !journey.ended) return;  // its last blocks are on their way out
    pop(heap);
  }
}

void Forecaster::complete(std::size_t which) {
  Lane& lane = lanes_[which];
  Journey& journey = journeys_[lane.absence];
  const bool out = which == static_cast<std::size_t>(lane_out(absences_[lane.absence].tier));
  now_ns_ = lane.done_ns;
  if (lane.stays) {
    cleaned_[lane.absence] += lane.blocks;
  } else if (!out) {
    journey.arrived += lane.blocks;
  } else {
    journey.unwritten -= std::min(journey.unwritten, lane.blocks);
    // Wanted back meanwhile, it stays.
    if (!journey.ended && now_ < journey.return_from) {
      journey.gone += lane.blocks;
      out_ += lane.blocks;
    }
  }
  lane = {};
}

std::uint32_t Forecaster::leaving_now(std::uint32_t index) const {
  const Lane& lane = lanes_[static_cast<std::size_t>(lane_out(absences_[index].tier))];
  return lane.done_ns != kForever && !lane.stays && lane.absence == index ? lane.blocks : 0;
}

}  // namespace

Forecast forecast(std::span<const double> start_ns, std::span<const std::uint64_t> live_blocks,
                  std::span<const PieceAbsence> absences, std::span<const Cleaning> cleanings,
                  const PlanLimits& limits) {
  return Forecaster(start_ns, live_blocks, absences, cleanings, limits).run();
}

}  // namespace ebb
