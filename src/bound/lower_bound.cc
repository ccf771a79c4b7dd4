// See lower_bound.h.
#include "bound/lower_bound.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bound/fluid.h"
#include "bound/program.h"

namespace ebb {
namespace {

using fluid::Absence;
using fluid::Class;
using fluid::Fluid;
using Column = Program::Column;
using Row = Program::Row;

constexpr double kInfinity = Program::kInfinity;
constexpr double kByteScale = 1e-9;  // the program counts in GB and seconds, near 1 for the solver's tolerances

double scaled(std::uint64_t bytes) { return static_cast<double>(bytes) * kByteScale; }

// The course of bytes through one layer: everything that leaves device memory, or the part of it that is on flash.
// In each slot, bytes stand in one of three pools: still here, absent, back again. A pool is what it was, plus what
// came, minus what went.
struct Layer {
  std::vector<Column> out, in;               // by slot: leaving and returning
  std::vector<Column> here, absent, back;    // by slot, at its end
  std::vector<Column> written;               // by slot: bytes written out; the same as `out` if all is written
  std::vector<std::vector<Column>> amounts;  // by class, by absence: how much is absent
};

class Builder {
 public:
  Builder(const Fluid& fluid, const Machine& machine, Copies copies, std::uint64_t peak_bytes)
      : fluid_(fluid),
        machine_(machine),
        copies_(copies),
        peak_bytes_(peak_bytes),
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
  std::vector<Column> column_each();
  Layer add_layer();
  struct Stock {
    std::vector<Row> change;  // by slot
    Row at_end = 0;
  };
  Stock add_stock(const std::vector<Column>& pool);
  void add_span(const Stock& stock, Column column, std::uint32_t from, std::uint32_t to, bool crosses);
  void add_pools(Layer& layer);
  void add_writing(Layer& layer);
  void add_leaving(const Layer& layer, const std::vector<Column>& copies);
  void at_most(Column part, Column whole);
  using Flows = std::initializer_list<const std::vector<Column>*>;
  void add_lane(Resource resource, Flows flows, double bps);
  void add_memory(const Layer& all);
  void add_host(const Layer& all, const Layer& flash);

  const Fluid& fluid_;
  const Machine& machine_;
  const Copies copies_;
  const std::uint64_t peak_bytes_;
  const std::uint32_t slots_;
  Program program_;
  double reach_ = 0;            // more than ever moves in an iteration, or waits to
  std::vector<Column> stalls_;  // by slot; of those that cannot stall, fixed to 0
  Layer all_, flash_;
  struct Limit {
    Row row;
    Resource resource;
    double amount;  // what the row would have more if there were twice as much of the resource
    std::uint32_t slot;
    double rate;  // of lanes: GB for each second that the slot stalls
  };
  std::vector<Limit> limits_;
};

std::vector<Column> Builder::column_each() {
  std::vector<Column> columns(slots_);
  for (auto& column : columns) column = program_.add_unlimited_column(reach_);
  return columns;
}

Layer Builder::add_layer() {
  Layer layer;
  layer.out = column_each();
  layer.in = column_each();
  layer.here = column_each();
  layer.absent = column_each();
  layer.back = column_each();
  for (const Class& each : fluid_.classes) {
    layer.amounts.emplace_back();
    for (std::size_t i = 0; i < each.absences.size(); ++i) {
      layer.amounts.back().push_back(program_.add_column(scaled(each.bytes)));
    }
  }
  add_pools(layer);
  layer.written = layer.out;
  if (copies_ == Copies::kKeptClean) add_writing(layer);
  return layer;
}

void Builder::add_pools(Layer& layer) {
  std::vector<Row> here(slots_), back(slots_);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const auto balance = [&](const std::vector<Column>& pool, const std::vector<Column>* from,
                             const std::vector<Column>* to) {
      const Row row = program_.add_row(0, 0);
      if (slots_ > 1) {
        program_.add_term(row, pool[t], -1);
        program_.add_term(row, pool[before(t)], 1);
      }
      if (from != nullptr) program_.add_term(row, (*from)[t], 1);
      if (to != nullptr) program_.add_term(row, (*to)[t], -1);
      return row;
    };
    here[t] = balance(layer.here, nullptr, &layer.out);
    balance(layer.absent, &layer.out, &layer.in);
    back[t] = balance(layer.back, &layer.in, nullptr);
  }
  // What is open at the end of the iteration is in one of the pools, and nothing else is: without this a pool could be
  // full for ever without anything having left.
  const Row anchor = program_.add_row(0, 0);
  for (const auto* pool : {&layer.here, &layer.absent, &layer.back}) {
    program_.add_term(anchor, pool->back(), 1);
  }
  for (std::size_t c = 0; c < fluid_.classes.size(); ++c) {
    for (std::size_t i = 0; i < layer.amounts[c].size(); ++i) {
      const Absence& absence = fluid_.classes[c].absences[i];
      program_.add_term(here[absence.begin], layer.amounts[c][i], 1);
      program_.add_term(back[absence.due], layer.amounts[c][i], -1);
      if (absence.crosses) program_.add_term(anchor, layer.amounts[c][i], -1);
    }
  }
}

void Builder::at_most(Column part, Column whole) {
  const Row row = program_.add_row(0, kInfinity);
  program_.add_term(row, whole, 1);
  program_.add_term(row, part, -1);
}

// Adds `column` to a stock that exists from the end of slot `from` to the end of slot `to`.
void Builder::add_span(const Stock& stock, Column column, std::uint32_t from, std::uint32_t to, bool crosses) {
  if (from != to) {
    program_.add_term(stock.change[from], column, 1);
    program_.add_term(stock.change[to], column, -1);
  }
  if (crosses) program_.add_term(stock.at_end, column, -1);
}

// pool[t] = pool[t - 1] + what is added to change[t], around the iteration; at its end what is added to at_end.
Builder::Stock Builder::add_stock(const std::vector<Column>& pool) {
  Stock stock;
  for (std::uint32_t t = 0; t < slots_; ++t) {
    stock.change.push_back(program_.add_row(0, 0));
    if (slots_ == 1) continue;
    program_.add_term(stock.change[t], pool[before(t)], 1);
    program_.add_term(stock.change[t], pool[t], -1);
  }
  stock.at_end = program_.add_row(0, 0);
  program_.add_term(stock.at_end, pool.back(), 1);
  return stock;
}

// With clean copies kept, bytes can be written as soon as they were made, once for all absences of a content.
void Builder::add_writing(Layer& layer) {
  layer.written = column_each();
  const auto promised = column_each();   // contents that exist: what of them is written sooner or later
  const auto unwritten = column_each();  // of that, what is not written yet
  const Stock promises = add_stock(promised);
  std::vector<Row> made(slots_);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    made[t] = program_.add_row(0, 0);
    if (slots_ > 1) {
      program_.add_term(made[t], unwritten[before(t)], 1);
      program_.add_term(made[t], unwritten[t], -1);
    }
    program_.add_term(made[t], layer.written[t], -1);
    at_most(unwritten[t], promised[t]);
  }
  std::vector<Column> copies(fluid_.classes.size());
  for (std::size_t c = 0; c < fluid_.classes.size(); ++c) {
    const Class& each = fluid_.classes[c];
    const auto& amounts = layer.amounts[c];
    if (each.clean) continue;
    copies[c] = amounts.size() == 1 ? amounts[0] : program_.add_column(scaled(each.bytes));
    program_.add_term(made[each.made], copies[c], 1);
    add_span(promises, copies[c], each.made, each.absences.back().due, each.absences.back().made_before);
    for (std::size_t i = 0; amounts.size() > 1 && i < amounts.size(); ++i) at_most(amounts[i], copies[c]);
  }
  add_leaving(layer, copies);
}

// What leaves was written before, and may leave once for that. Bytes of different contents are not told apart, so this
// is said of one absence of each content, the leading one; in the others it may leave for nothing.
void Builder::add_leaving(const Layer& layer, const std::vector<Column>& copies) {
  const auto leavable = column_each();  // what could leave without a further write, were all promises kept
  const auto ready = column_each();     // of that, what can leave now
  const Stock leaving = add_stock(leavable);
  std::vector<Row> left(slots_);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    left[t] = program_.add_row(0, kInfinity);
    if (slots_ > 1) {
      program_.add_term(left[t], ready[before(t)], 1);
      program_.add_term(left[t], ready[t], -1);
    }
    program_.add_term(left[t], layer.written[t], 1);
    program_.add_term(left[t], layer.out[t], -1);
    const Row once = program_.add_row(0, kInfinity);  // what has left cannot leave again
    program_.add_term(once, leavable[t], 1);
    for (const auto* pool : {&ready, &layer.absent, &layer.back}) program_.add_term(once, (*pool)[t], -1);
  }
  for (std::size_t c = 0; c < fluid_.classes.size(); ++c) {
    const Class& each = fluid_.classes[c];
    for (std::size_t i = 0; i < each.absences.size(); ++i) {
      const Absence& absence = each.absences[i];
      if (!each.clean && i == each.leads) {
        add_span(leaving, copies[c], each.made, absence.due, absence.made_before);
      } else {
        program_.add_term(left[absence.begin], layer.amounts[c][i], 1);
        add_span(leaving, layer.amounts[c][i], absence.begin, absence.due, absence.crosses);
      }
    }
  }
}

void Builder::add_lane(Resource resource, Flows flows, double bps) {
  const double rate = bps * kByteScale;
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const double seconds = static_cast<double>(fluid_.slots[t].ns) * 1e-9;
    const Row row = program_.add_row(-kInfinity, rate * seconds);
    for (const std::vector<Column>* flow : flows) program_.add_term(row, (*flow)[t], 1);
    if (fluid_.slots[t].stalls) program_.add_term(row, stalls_[t], -rate);
    limits_.push_back({row, resource, rate * seconds, t, rate});
  }
}

void Builder::add_memory(const Layer& all) {
  const double memory = scaled(machine_.device_bytes);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const auto& slot = fluid_.slots[t];
    const auto absent_at_end_of = [&](std::uint32_t at) {
      const Row row = program_.add_row(scaled(slot.first_bytes) - memory, kInfinity);
      program_.add_term(row, all.absent[at], 1);
      limits_.push_back({row, Resource::kDeviceMemory, -memory, t, 0});
    };
    if (slot.first_bytes > machine_.device_bytes) {
      absent_at_end_of(before(t));
      if (!slot.stalls) absent_at_end_of(t);  // a launch alone keeps what it needs until it ends
    }
    if (slot.most_bytes > machine_.device_bytes && slot.most_bytes > slot.first_bytes) {
      // At some moment within the slot: at most what was absent at its start and has left since.
      const Row row = program_.add_row(scaled(slot.most_bytes) - memory, kInfinity);
      program_.add_term(row, all.absent[before(t)], 1);
      program_.add_term(row, all.out[t], 1);
      limits_.push_back({row, Resource::kDeviceMemory, -memory, t, 0});
    }
  }
}

void Builder::add_host(const Layer& all, const Layer& flash) {
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const Row row = program_.add_row(0, scaled(machine_.host_bytes));
    program_.add_term(row, all.absent[t], 1);
    program_.add_term(row, flash.absent[t], -1);
    limits_.push_back({row, Resource::kHostMemory, scaled(machine_.host_bytes), t, 0});
  }
  for (std::size_t c = 0; c < fluid_.classes.size(); ++c) {
    for (std::size_t i = 0; i < all.amounts[c].size(); ++i) {
      at_most(flash.amounts[c][i], all.amounts[c][i]);
    }
  }
}

void Builder::build() {
  for (const Class& each : fluid_.classes) {
    reach_ += 3 * scaled(each.bytes) * static_cast<double>(each.absences.size() + 1);
  }
  // Within one slot no lane has more to move than that, so no stall needs to be longer than the slowest takes for it.
  double slowest_bps = machine_.device_link_bps;
  if (machine_.has_flash()) {
    slowest_bps = std::min({slowest_bps, machine_.flash_read_bps, machine_.flash_write_bps});
    if (machine_.flash_total_bps > 0) slowest_bps = std::min(slowest_bps, machine_.flash_total_bps);
  }
  for (const auto& slot : fluid_.slots) {
    stalls_.push_back(slot.stalls ? program_.add_unlimited_column(reach_ / (slowest_bps * kByteScale), 1)
                                  : program_.add_column(0, 1));
  }
  all_ = add_layer();
  add_memory(all_);
  add_lane(Resource::kLinkOut, {&all_.written}, machine_.device_link_bps);
  add_lane(Resource::kLinkIn, {&all_.in}, machine_.device_link_bps);
  flash_ = all_;
  // Flash passes the same link, so a host that could hold everything is never worse.
  const bool uses_flash = machine_.has_flash() && (!machine_.has_host() || machine_.host_bytes < peak_bytes_);
  if (machine_.has_host() && uses_flash) {
    flash_ = add_layer();
    add_host(all_, flash_);
  }
  if (uses_flash) {
    add_lane(Resource::kFlashWrite, {&flash_.written}, machine_.flash_write_bps);
    add_lane(Resource::kFlashRead, {&flash_.in}, machine_.flash_read_bps);
    if (machine_.flash_total_bps > 0) {
      add_lane(Resource::kFlash, {&flash_.written, &flash_.in}, machine_.flash_total_bps);
    }
  } else {
    for (std::uint32_t t = 0; t < slots_; ++t) {
      const Row row = program_.add_row(-kInfinity, scaled(machine_.host_bytes));
      program_.add_term(row, all_.absent[t], 1);
      limits_.push_back({row, Resource::kHostMemory, scaled(machine_.host_bytes), t, 0});
    }
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

// Sets what the linear program says; the outcome is kUnknown if it was not solved.
void solve_fluid(const Vitality& vitality, const Machine& machine, const BoundOptions& options, Bound& bound) {
  const Fluid cut = fluid::make_fluid(vitality, options);
  bound.slots = static_cast<std::uint32_t>(cut.slots.size());
  Builder builder(cut, machine, options.copies, vitality.peak_vital_bytes);
  builder.build();
  if (!builder.solve()) return;
  bound.outcome = Bound::Outcome::kBounded;
  bound.stall_ns = static_cast<std::uint64_t>(builder.stall() * 1e9);
  if (bound.stall_ns == 0) return;
  bound.gain_ns = builder.gains_ns();
  for (const Resource lane :
       {Resource::kLinkOut, Resource::kLinkIn, Resource::kFlashWrite, Resource::kFlashRead, Resource::kFlash}) {
    const auto gain = [&](Resource resource) { return bound.gain_ns[static_cast<std::size_t>(resource)]; };
    if (bound.binding == Resource::kDeviceMemory || gain(lane) > gain(bound.binding)) bound.binding = lane;
  }
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
    // Every schedule that writes each absence is also one that may keep clean copies: no stall there is none here, and
    // the smaller program says so sooner.
    BoundOptions written = options;
    written.copies = Copies::kWritten;
    solve_fluid(vitality, machine, written, bound);
    if (options.copies == Copies::kKeptClean && bound.stall_ns > 0) {
      Bound kept = bound;
      kept.gain_ns = {};
      kept.stall_ns = 0;
      kept.binding = Resource::kDeviceMemory;
      kept.outcome = Bound::Outcome::kUnknown;
      // Twice the program for each slot, so half the slots.
      solve_fluid(vitality, machine, {Copies::kKeptClean, options.resolution / 2 + 1}, kept);
      return kept;
    }
  }
  return bound;
}

}  // namespace ebb
