// See lower_bound.h.
#include "bound/lower_bound.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "bound/course.h"
#include "bound/decomposition.h"
#include "bound/fluid.h"
#include "bound/program.h"

namespace ebb {
namespace {

using fluid::Course;
using fluid::Fluid;
using fluid::Group;
using fluid::kByteScale;
using fluid::scaled;
using Column = Program::Column;
using Columns = Course::Columns;
using Row = Program::Row;

constexpr double kInfinity = Program::kInfinity;

class Builder {
 public:
  Builder(const Fluid& fluid, const Machine& machine, Copies copies, bool uses_flash)
      : fluid_(fluid),
        machine_(machine),
        copies_(copies),
        uses_flash_(uses_flash),
        slots_(static_cast<std::uint32_t>(fluid.slots.size())) {}

  void build();
  // The least stall in seconds, once solved, and what each resource has to do with it.
  bool solve() {
    const bool written = copies_ == Copies::kWritten;
    return program_.solve(written ? Program::Method::kInteriorPoint : Program::Method::kSimplex);
  }
  double stall() const { return program_.bound(); }
  std::array<double, kResources> gains_ns() const;

 private:
  std::uint32_t before(std::uint32_t slot) const { return slot == 0 ? slots_ - 1 : slot - 1; }
  std::vector<Course> add_courses();
  // Some columns of every group in one slot: added to a row, each with this factor.
  void add_terms(Row row, const std::vector<Course>& courses, Columns Course::*of, std::uint32_t slot, double factor);
  using Flows = std::initializer_list<std::pair<const std::vector<Course>*, Columns Course::*>>;
  void add_lane(Resource resource, Flows flows, double bps);
  void add_memory();
  void add_host();

  const Fluid& fluid_;
  const Machine& machine_;
  const Copies copies_;
  const bool uses_flash_;
  const std::uint32_t slots_;
  Program program_;
  double reach_ = 0;                 // more than ever moves in an iteration, or waits to
  std::vector<Column> stalls_;       // by slot; of those that cannot stall, fixed to 0
  std::vector<Course> all_, flash_;  // by group: out of device memory, and of that, on flash
  struct Limit {
    Row row;
    Resource resource;
    double amount;  // what the row would have more if there were twice as much of the resource
    std::uint32_t slot;
    double rate;  // of lanes: GB for each second that the slot stalls
  };
  std::vector<Limit> limits_;
};

std::vector<Course> Builder::add_courses() {
  std::vector<Course> courses;
  for (const Group& group : fluid_.groups) {
    courses.push_back(fluid::add_course(program_, group, slots_, reach_, copies_));
  }
  return courses;
}

void Builder::add_terms(Row row, const std::vector<Course>& courses, Columns Course::*of, std::uint32_t slot,
                        double factor) {
  for (const Course& course : courses) program_.add_term(row, (course.*of)[slot], factor);
}

void Builder::add_lane(Resource resource, Flows flows, double bps) {
  const double rate = bps * kByteScale;
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const double seconds = static_cast<double>(fluid_.slots[t].ns) * 1e-9;
    const Row row = program_.add_row(-kInfinity, rate * seconds);
    for (const auto& [courses, flow] : flows) add_terms(row, *courses, flow, t, 1);
    if (fluid_.slots[t].stalls) program_.add_term(row, stalls_[t], -rate);
    limits_.push_back({row, resource, rate * seconds, t, rate});
  }
}

void Builder::add_memory() {
  for (const fluid::MemoryLimit& limit : fluid::memory_limits(fluid_, machine_.device_bytes)) {
    const Row row = program_.add_row(scaled(limit.absent_bytes), kInfinity);
    add_terms(row, all_, &Course::absent, limit.within ? before(limit.slot) : limit.slot, 1);
    if (limit.within) add_terms(row, all_, &Course::out, limit.slot, 1);
    limits_.push_back({row, Resource::kDeviceMemory, -scaled(machine_.device_bytes), limit.slot, 0});
  }
}

// The host holds what is absent and not on flash.
void Builder::add_host() {
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const Row row = program_.add_row(flash_.empty() ? -kInfinity : 0, scaled(machine_.host_bytes));
    add_terms(row, all_, &Course::absent, t, 1);
    add_terms(row, flash_, &Course::absent, t, -1);
    limits_.push_back({row, Resource::kHostMemory, scaled(machine_.host_bytes), t, 0});
  }
  for (std::size_t group = 0; group < flash_.size(); ++group) {
    for (std::size_t c = 0; c < flash_[group].amounts.size(); ++c) {
      const Columns& some = flash_[group].amounts[c];
      for (std::size_t i = 0; i < some.size(); ++i) fluid::add_at_most(program_, some[i], all_[group].amounts[c][i]);
    }
  }
}

void Builder::build() {
  for (const Group& group : fluid_.groups) {
    for (const auto& each : group) {
      reach_ += 3 * scaled(each.bytes) * static_cast<double>(each.absences.size() + 1);
    }
  }
  // Within one slot no lane has more to move than that, so no stall needs to be longer than the slowest takes for it.
  double slowest_bps = machine_.device_link_bps;
  if (machine_.has_flash()) {
    slowest_bps = std::min({slowest_bps, machine_.flash_read_bps, machine_.flash_write_bps});
    if (machine_.flash_total_bps > 0) slowest_bps = std::min(slowest_bps, machine_.flash_total_bps);
  }
  for (const auto& slot : fluid_.slots) {
    const double price = slot.outside ? 0 : 1;
    stalls_.push_back(slot.stalls ? program_.add_unlimited_column(reach_ / (slowest_bps * kByteScale), price)
                                  : program_.add_column(0, price));
  }
  all_ = add_courses();
  add_memory();
  add_lane(Resource::kLinkOut, {{&all_, &Course::written}}, machine_.device_link_bps);
  add_lane(Resource::kLinkIn, {{&all_, &Course::in}}, machine_.device_link_bps);
  if (machine_.has_host() && uses_flash_) flash_ = add_courses();
  if (machine_.has_host() || !uses_flash_) add_host();
  if (!uses_flash_) return;
  const auto& on_flash = flash_.empty() ? all_ : flash_;
  add_lane(Resource::kFlashWrite, {{&on_flash, &Course::written}}, machine_.flash_write_bps);
  add_lane(Resource::kFlashRead, {{&on_flash, &Course::in}}, machine_.flash_read_bps);
  if (machine_.flash_total_bps > 0) {
    add_lane(Resource::kFlash, {{&on_flash, &Course::written}, {&on_flash, &Course::in}}, machine_.flash_total_bps);
  }
}

std::array<double, kResources> Builder::gains_ns() const {
  std::array<double, kResources> gains{};
  for (const Limit& limit : limits_) {
    const double amount = limit.amount + limit.rate * program_.value(stalls_[limit.slot]);
    gains[static_cast<std::size_t>(limit.resource)] -= program_.price(limit.row) * amount * 1e9 / 100;
  }
  return gains;
}

void set_waiting(double seconds, const std::array<double, kResources>& gain_ns, Bound& bound) {
  bound.outcome = Bound::Outcome::kBounded;
  bound.stall_ns = static_cast<std::uint64_t>(seconds * 1e9);
  if (bound.stall_ns == 0) return;
  bound.gain_ns = gain_ns;
  bound.binding = Resource::kDeviceMemory;
  for (const Resource lane :
       {Resource::kLinkOut, Resource::kLinkIn, Resource::kFlashWrite, Resource::kFlashRead, Resource::kFlash}) {
    const auto gain = [&](Resource resource) { return bound.gain_ns[static_cast<std::size_t>(resource)]; };
    if (bound.binding == Resource::kDeviceMemory || gain(lane) > gain(bound.binding)) bound.binding = lane;
  }
}

// Sets what the linear program says; the outcome is kUnknown if it was not solved.
void solve_pooled(const Vitality& vitality, const Machine& machine, const BoundOptions& options, bool uses_flash,
                  Bound& bound) {
  const Fluid cut = fluid::make_fluid(vitality, options);
  bound.slots = static_cast<std::uint32_t>(cut.slots.size());
  Builder builder(cut, machine, options.copies, uses_flash);
  builder.build();
  if (builder.solve()) set_waiting(builder.stall(), builder.gains_ns(), bound);
}

// Contents told apart, with clean copies and one tier below, if they say more.
void raise_apart(const Vitality& vitality, const Machine& machine, const BoundOptions& options, bool uses_flash,
                 Bound& bound) {
  const Fluid cut = fluid::make_fluid(vitality, options);
  const fluid::Waiting waiting = fluid::least_waiting(cut, machine, uses_flash);
  if (waiting.seconds * 1e9 <= static_cast<double>(bound.stall_ns)) return;
  bound.slots = static_cast<std::uint32_t>(cut.slots.size());
  set_waiting(waiting.seconds, waiting.gain_ns, bound);
}

void solve(const Vitality& vitality, const Machine& machine, const BoundOptions& options, Bound& bound) {
  // Flash passes the same link as host memory, so a host that could hold everything is never worse.
  const bool host_holds_all = machine.has_host() && machine.host_bytes >= vitality.peak_vital_bytes;
  const bool uses_flash = machine.has_flash() && !host_holds_all;
  // Every schedule that writes each absence is also one that may keep clean copies: what the smaller program says of
  // those holds for these.
  Bound written = bound;
  solve_pooled(vitality, machine, {Copies::kWritten, options.resolution}, uses_flash, written);
  const bool solved = written.outcome == Bound::Outcome::kBounded;
  if (options.copies == Copies::kWritten || (solved && written.stall_ns == 0)) {
    bound = written;
    return;
  }
  // Fewer slots, for there is more to say of each. Contents told apart are worth more than twice the slots, mostly.
  solve_pooled(vitality, machine, {Copies::kKeptClean, options.resolution / 2 + 1}, uses_flash, bound);
  const bool may_rise = !solved || bound.stall_ns < written.stall_ns;
  if (may_rise && (host_holds_all || !machine.has_host())) {
    raise_apart(vitality, machine, {Copies::kKeptClean, options.resolution / 4 + 1}, uses_flash, bound);
  }
  if (solved) bound.stall_ns = std::min(bound.stall_ns, written.stall_ns);
}

}  // namespace

const char* name(Resource resource) {
  static constexpr std::array<const char*, kResources> kNames{
      "device memory", "host memory", "device link out",         "device link in",
      "flash write",   "flash read",  "flash in both directions"};
  return kNames[static_cast<std::size_t>(resource)];
}

Bound lower_bound(const Vitality& vitality, const Machine& machine, const BoundOptions& options) {
  Bound bound;
  bound.ideal_ns = vitality.ideal_ns();
  const auto beyond = [&](std::uint64_t bytes) {
    return vitality.peak_vital_bytes - std::min(bytes, vitality.peak_vital_bytes);
  };
  const std::uint64_t host_bytes = machine.has_host() ? machine.host_bytes : 0;
  bound.must_leave_bytes = beyond(machine.device_bytes);
  bound.must_leave_host_bytes = beyond(machine.device_bytes + host_bytes);
  if (vitality.working_set_bytes_max > machine.device_bytes) {
    bound.outcome = Bound::Outcome::kStreams;
    bound.streaming_launch = vitality.working_set_max_launch;
  } else if (bound.must_leave_bytes == 0) {
    bound.outcome = Bound::Outcome::kFits;
  } else if (bound.must_leave_host_bytes > 0 && !machine.has_flash()) {
    bound.outcome = Bound::Outcome::kNoRoom;
  } else {
    solve(vitality, machine, options, bound);
  }
  return bound;
}

}  // namespace ebb
