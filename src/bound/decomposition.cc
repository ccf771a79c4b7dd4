// See decomposition.h.
#include "bound/decomposition.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "bound/course.h"
#include "bound/itinerary.h"
#include "bound/program.h"

namespace ebb::fluid {
namespace {

// The search ends when what the program over the itineraries found so far waits is so near, as a part of all time, to
// what is proved; or, in seconds, after so many itineraries.
constexpr double kNear = 1e-4;
constexpr std::size_t kItinerariesMax = 20000;
// The program's prices leap from round to round. Itineraries are asked for between them and the best prices so far, so
// much nearer to the latter; nearer and nearer to the program's own where that names none that is new.
constexpr double kSmoothing = 0.7, kSmoothingMin = 0.2;

struct Lane {
  Resource resource;
  bool writes = false, reads = false;
  double rate = 0;  // GB a second
};

// What is priced: seconds of each lane in each slot, and GB of each memory limit.
struct Duals {
  std::vector<std::vector<double>> lanes;
  std::vector<double> memory;
};

Duals between(const Duals& from, const Duals& to, double share) {
  Duals result = from;
  const auto move = [share](std::vector<double>& at, const std::vector<double>& towards) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] += share * (towards[i] - at[i]);
  };
  for (std::size_t i = 0; i < from.lanes.size(); ++i) move(result.lanes[i], to.lanes[i]);
  move(result.memory, to.memory);
  return result;
}

class Decomposition {
 public:
  Decomposition(const Fluid& fluid, const Machine& machine, bool uses_flash)
      : fluid_(fluid),
        memory_bytes_(machine.device_bytes),
        slots_(static_cast<std::uint32_t>(fluid.slots.size())),
        limits_(memory_limits(fluid, machine.device_bytes)) {
    for (const Group& group : fluid.groups) classes_.insert(classes_.end(), group.begin(), group.end());
    for (const Slot& slot : fluid.slots) compute_s_ += static_cast<double>(slot.ns) * 1e-9;
    add_lanes(machine, uses_flash);
    add_rows();
    best_ = {std::vector(lanes_.size(), std::vector<double>(slots_, 0)), std::vector<double>(limits_.size(), 0)};
  }

  Waiting run();

 private:
  // What a price of a lane, or of memory, is worth of schedules; and itineraries that are as cheap as can be at it.
  struct Valued {
    double seconds = 0;
    std::vector<Itinerary> itineraries;  // by class
  };

  void add_lane(Resource resource, bool writes, bool reads, double bps);
  void add_lanes(const Machine& machine, bool uses_flash);
  void add_rows();
  bool add(std::size_t content, const Itinerary& itinerary);
  bool add(const Valued& valued);
  bool ask(const Duals& found);
  Duals program_duals() const;
  Duals allowed(Duals duals) const;
  SummedPrices prices_of(const Duals& duals) const;
  Valued value(const Duals& duals) const;
  Waiting hand_out() const;

  const Fluid& fluid_;
  const std::uint64_t memory_bytes_;
  const std::uint32_t slots_;
  const std::vector<MemoryLimit> limits_;
  std::vector<Class> classes_;
  std::vector<Lane> lanes_;
  double compute_s_ = 0;
  GrowingProgram program_;
  std::vector<std::vector<GrowingProgram::Row>> lane_rows_;  // by lane and slot
  std::vector<GrowingProgram::Row> memory_rows_;             // by limit
  std::vector<std::vector<std::size_t>> ends_, moments_;     // by slot: limits at its end, and within it
  std::vector<GrowingProgram::Row> class_rows_;
  std::vector<GrowingProgram::Column> stalls_;  // by slot
  std::set<std::pair<std::size_t, std::vector<Itinerary::Leg>>> found_;
  Duals best_;
  double best_s_ = 0;
};

// A lane that carries what another one carries, and is no slower, binds nothing.
void Decomposition::add_lane(Resource resource, bool writes, bool reads, double bps) {
  const double rate = bps * kByteScale;
  for (const Lane& lane : lanes_) {
    if (lane.writes >= writes && lane.reads >= reads && lane.rate <= rate) return;
  }
  lanes_.push_back({resource, writes, reads, rate});
}

void Decomposition::add_lanes(const Machine& machine, bool uses_flash) {
  if (uses_flash) {
    if (machine.flash_total_bps > 0) add_lane(Resource::kFlash, true, true, machine.flash_total_bps);
    add_lane(Resource::kFlashWrite, true, false, machine.flash_write_bps);
    add_lane(Resource::kFlashRead, false, true, machine.flash_read_bps);
  }
  add_lane(Resource::kLinkOut, true, false, machine.device_link_bps);
  add_lane(Resource::kLinkIn, false, true, machine.device_link_bps);
}

// Lanes count in seconds, so a slot that stalls has as much more of each.
void Decomposition::add_rows() {
  const double infinity = Program::kInfinity;
  double slowest_s = 0;  // for a GB there and back
  for (const Lane& lane : lanes_) {
    slowest_s += 1 / lane.rate;
    auto& rows = lane_rows_.emplace_back();
    for (const Slot& slot : fluid_.slots) {
      rows.push_back(program_.add_row(-infinity, static_cast<double>(slot.ns) * 1e-9));
    }
  }
  ends_.resize(slots_);
  moments_.resize(slots_);
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    memory_rows_.push_back(program_.add_row(scaled(limits_[i].absent_bytes), infinity));
    (limits_[i].within ? moments_ : ends_)[limits_[i].slot].push_back(i);
  }
  for (const Class& each : classes_) class_rows_.push_back(program_.add_row(-infinity, scaled(each.bytes)));
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const Slot& slot = fluid_.slots[t];
    GrowingProgram::Terms terms;
    for (const auto& rows : lane_rows_) terms.emplace_back(rows[t], -1);
    stalls_.push_back(program_.add_column(slot.stalls ? infinity : 0, slot.outside ? 0 : 1, terms));
  }
  // Until itineraries are found that keep them, limits may be broken, for more than what keeping them costs.
  for (const auto row : memory_rows_) program_.add_column(infinity, 3 * slowest_s, {{row, 1}});
}

bool Decomposition::add(std::size_t content, const Itinerary& itinerary) {
  if (itinerary.legs.empty() || !found_.emplace(content, itinerary.legs).second) return false;
  std::vector<std::pair<GrowingProgram::Row, double>> terms{{class_rows_[content], 1}};
  for (const Itinerary::Leg& leg : itinerary.legs) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const bool reads = lanes_[i].reads && classes_[content].absences[leg.period].returns;
      if (reads) terms.emplace_back(lane_rows_[i][leg.back % slots_], 1 / lanes_[i].rate);
      const bool writes = lanes_[i].writes && leg.written != Itinerary::kNone;
      if (writes) terms.emplace_back(lane_rows_[i][leg.written % slots_], 1 / lanes_[i].rate);
    }
    for (std::uint32_t t = leg.out; t <= leg.back; ++t) {
      for (const std::size_t limit : moments_[t % slots_]) terms.emplace_back(memory_rows_[limit], 1);
      if (t == leg.back) break;
      for (const std::size_t limit : ends_[t % slots_]) terms.emplace_back(memory_rows_[limit], 1);
    }
  }
  program_.add_column(Program::kInfinity, 0, std::move(terms));
  return true;
}

bool Decomposition::add(const Valued& valued) {
  bool is_new = false;
  for (std::size_t i = 0; i < classes_.size(); ++i) is_new |= add(i, valued.itineraries[i]);
  return is_new;
}

Duals Decomposition::program_duals() const {
  Duals duals;
  for (const auto& rows : lane_rows_) {
    auto& lane = duals.lanes.emplace_back();
    for (const auto row : rows) lane.push_back(-program_.price(row));
  }
  for (const auto row : memory_rows_) duals.memory.push_back(program_.price(row));
  return duals;
}

// Prices that are valid: none is below 0, and a second in which a slot stalls, which is a second of each lane, costs no
// less than all lanes together would pay for it.
Duals Decomposition::allowed(Duals duals) const {
  for (auto& lane : duals.lanes) {
    for (double& each : lane) each = std::max(each, 0.0);
  }
  for (double& each : duals.memory) each = std::max(each, 0.0);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    if (!fluid_.slots[t].stalls) continue;
    double all = 0;
    for (const auto& lane : duals.lanes) all += lane[t];
    const double most = fluid_.slots[t].outside ? 0 : 1;
    if (all <= most) continue;
    for (auto& lane : duals.lanes) lane[t] *= most / all;
  }
  return duals;
}

SummedPrices Decomposition::prices_of(const Duals& duals) const {
  std::vector<SlotPrices> slots(slots_);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    for (std::uint32_t t = 0; t < slots_; ++t) {
      const double price = duals.lanes[i][t] / lanes_[i].rate;
      if (lanes_[i].writes) slots[t].write += price;
      if (lanes_[i].reads) slots[t].read += price;
    }
  }
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    SlotPrices& slot = slots[limits_[i].slot];
    (limits_[i].within ? slot.within : slot.absent) += duals.memory[i];
  }
  return SummedPrices(slots);
}

Decomposition::Valued Decomposition::value(const Duals& duals) const {
  Valued valued;
  for (const auto& lane : duals.lanes) {
    for (std::uint32_t t = 0; t < slots_; ++t) {
      valued.seconds -= lane[t] * static_cast<double>(fluid_.slots[t].ns) * 1e-9;
    }
  }
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    valued.seconds += duals.memory[i] * scaled(limits_[i].absent_bytes);
  }
  const SummedPrices prices = prices_of(duals);
  for (const Class& each : classes_) {
    valued.itineraries.push_back(cheapest(each, prices));
    valued.seconds += scaled(each.bytes) * valued.itineraries.back().price;
  }
  return valued;
}

// Whether there are itineraries that are new.
bool Decomposition::ask(const Duals& found) {
  for (double smoothing = kSmoothing;; smoothing /= 2) {
    if (smoothing < kSmoothingMin) smoothing = 0;
    const Duals duals = allowed(between(found, best_, smoothing));
    const Valued valued = value(duals);
    if (valued.seconds > best_s_) {
      best_s_ = valued.seconds;
      best_ = duals;
    }
    if (add(valued)) return true;
    if (smoothing == 0) return false;
  }
}

Waiting Decomposition::run() {
  while (found_.size() < kItinerariesMax && program_.solve()) {
    if (program_.objective() - best_s_ < kNear * (compute_s_ + best_s_)) break;
    if (!ask(program_duals())) break;
  }
  return hand_out();
}

Waiting Decomposition::hand_out() const {
  Waiting waiting;
  waiting.seconds = best_s_;
  const auto gain = [&](Resource resource) -> double& { return waiting.gain_ns[static_cast<std::size_t>(resource)]; };
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    for (std::uint32_t t = 0; t < slots_; ++t) {
      const double seconds = static_cast<double>(fluid_.slots[t].ns) * 1e-9 + program_.value(stalls_[t]);
      gain(lanes_[i].resource) += best_.lanes[i][t] * seconds * 1e9 / 100;
    }
  }
  for (const double price : best_.memory) gain(Resource::kDeviceMemory) += price * scaled(memory_bytes_) * 1e9 / 100;
  return waiting;
}

}  // namespace

Waiting least_waiting(const Fluid& fluid, const Machine& machine, bool uses_flash) {
  return Decomposition(fluid, machine, uses_flash).run();
}

}  // namespace ebb::fluid
