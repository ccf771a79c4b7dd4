// See recorder.h.
#include "plan/recorder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

namespace ebb {
namespace {

using Position = Recording::Position;

// Two iterations in a row as one sequence of events, cut so that what lies between the cut in the first and the cut in
// the second is one whole iteration.
class Cutter {
 public:
  Cutter(const Recording& before, const Recording& last, const std::map<std::uint64_t, std::string>& names)
      : parts_{&before, &last}, names_(names) {}

  Trace cut() {
    find_lives();
    const Position at = best_cut();
    for (Position i = at; i < parts_[0]->size(); ++i) add(*parts_[0], i);
    for (Position i = 0; i < std::min(at, parts_[1]->size()); ++i) add(*parts_[1], i);
    finish();
    return std::move(trace_);
  }

 private:
  struct Life {
    std::uint64_t bytes = 0;
    std::uint64_t born = 0;      // event of both iterations; 0 if earlier
    std::uint64_t dead = ~0ull;  // likewise; for ever if later
    std::uint32_t index = Trace::kNone;
    bool born_here = false;
  };

  void find_lives();
  Position best_cut() const;
  void add(const Recording& part, Position position);
  void add_launch(const Recording& part, const Recording::Event& event);
  std::uint32_t tensor(std::uint64_t serial);
  std::uint32_t op_index(std::uint64_t op);
  void finish();

  std::array<const Recording*, 2> parts_;
  const std::map<std::uint64_t, std::string>& names_;
  std::map<std::uint64_t, Life> lives_;
  std::map<std::uint64_t, std::uint32_t> ops_;
  std::vector<std::uint32_t> fresh_;  // allocated since the latest launch: what it makes
  std::set<std::uint32_t> written_;
  std::vector<std::vector<Trace::TensorIndex>> reads_, writes_;  // by launch
  Trace trace_;
};

void Cutter::find_lives() {
  std::uint64_t time = 0;
  for (const Recording* part : parts_) {
    for (Position i = 0; i < part->size(); ++i, ++time) {
      const Recording::Event& event = part->event(i);
      for (const Recording::Use& use : part->uses(event)) {
        const Recording::Reference& reference = part->reference(use.reference);
        Life& life = lives_[reference.serial];
        life.bytes = std::max(life.bytes, reference.bytes);
      }
      if (event.kind == Recording::Kind::kLaunch) continue;
      const Recording::Reference& reference = part->reference(event.reference);
      Life& life = lives_[reference.serial];
      life.bytes = std::max(life.bytes, reference.bytes);
      if (event.kind == Recording::Kind::kFree) {
        life.dead = time;
      } else {
        life.born = time;
        life.born_here = true;
      }
    }
  }
}

// Where the fewest bytes of what the iteration made live across.
Position Cutter::best_cut() const {
  const std::uint64_t size = parts_[0]->size();
  std::vector<std::int64_t> change(size + 1, 0);
  for (const auto& [serial, life] : lives_) {
    if (!life.born_here || life.born >= size || life.dead == ~0ull) continue;
    const auto bytes = static_cast<std::int64_t>(life.bytes);
    // Alive at cuts in (born, dead], counted from the start of either iteration.
    const std::uint64_t end = std::min(life.dead, size);
    change[life.born + 1] += bytes;
    if (end + 1 <= size) change[end + 1] -= bytes;
    if (life.dead <= size) continue;
    change[0] += bytes;
    if (life.dead - size + 1 <= size) change[life.dead - size + 1] -= bytes;
  }
  std::int64_t across = 0;
  std::int64_t least = 0;
  Position best = 0;
  const std::uint64_t end = std::min<std::uint64_t>(size, parts_[1]->size());
  for (std::uint64_t i = 0; i <= end; ++i) {
    across += change[i];
    if (i > 0 && across >= least) continue;
    least = across;
    best = static_cast<Position>(i);
  }
  return best;
}

std::uint32_t Cutter::tensor(std::uint64_t serial) {
  Life& life = lives_.at(serial);
  if (life.index != Trace::kNone) return life.index;
  life.index = static_cast<std::uint32_t>(trace_.tensors.size());
  Trace::Tensor tensor;
  tensor.id = life.index;
  tensor.bytes = life.bytes;
  tensor.persistent = true;  // unless it turns out to be made here
  tensor.mapped = serial >= kLastingSerials;
  trace_.tensors.push_back(tensor);
  return life.index;
}

std::uint32_t Cutter::op_index(std::uint64_t op) {
  const auto [found, added] = ops_.emplace(op, static_cast<std::uint32_t>(trace_.ops.size()));
  if (!added) return found->second;
  if (const auto known = names_.find(op); known != names_.end()) {
    trace_.ops.push_back(known->second);
  } else {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "op-%016llx", static_cast<unsigned long long>(op));
    trace_.ops.emplace_back(text.data());
  }
  return found->second;
}

void Cutter::add(const Recording& part, Position position) {
  const Recording::Event& event = part.event(position);
  if (event.kind == Recording::Kind::kLaunch) return add_launch(part, event);
  const std::uint64_t serial = part.reference(event.reference).serial;
  // The end of what nothing here has made or used is no business of this trace.
  if (event.kind == Recording::Kind::kFree && lives_.at(serial).index == Trace::kNone) return;
  const std::uint32_t index = tensor(serial);
  Trace::Tensor& tensor = trace_.tensors[index];
  const auto launches = static_cast<Trace::LaunchIndex>(trace_.launches.size());
  if (event.kind == Recording::Kind::kFree) {
    tensor.freed_before = launches;
    tensor.persistent = tensor.mapped = false;
    return;
  }
  // Made by the launch that runs.
  tensor.persistent = false;
  tensor.allocated_before = launches > 0 ? launches - 1 : 0;
  if (launches > 0) writes_[launches - 1].push_back(index);
}

void Cutter::add_launch(const Recording& part, const Recording::Event& event) {
  Trace::Launch launch;
  launch.op = op_index(event.op);
  launch.ns = event.ns;
  trace_.launches.push_back(launch);
  auto& reads = reads_.emplace_back();
  auto& writes = writes_.emplace_back();
  for (const Recording::Use& use : part.uses(event)) {
    const std::uint32_t index = tensor(part.reference(use.reference).serial);
    reads.push_back(index);
    if (use.written) writes.push_back(index);
  }
}

void Cutter::finish() {
  const auto unique = [](std::vector<Trace::TensorIndex>& list) {
    std::vector<Trace::TensorIndex> kept;
    for (const Trace::TensorIndex i : list) {
      if (std::find(kept.begin(), kept.end(), i) == kept.end()) kept.push_back(i);
    }
    list = std::move(kept);
  };
  for (std::size_t i = 0; i < trace_.launches.size(); ++i) {
    unique(reads_[i]);
    unique(writes_[i]);
    Trace::Launch& launch = trace_.launches[i];
    launch.first_use = static_cast<std::uint32_t>(trace_.uses.size());
    launch.reads = static_cast<std::uint32_t>(reads_[i].size());
    launch.writes = static_cast<std::uint32_t>(writes_[i].size());
    trace_.uses.insert(trace_.uses.end(), reads_[i].begin(), reads_[i].end());
    trace_.uses.insert(trace_.uses.end(), writes_[i].begin(), writes_[i].end());
    for (const auto* list : {&reads_[i], &writes_[i]}) {
      for (const Trace::TensorIndex tensor : *list) {
        Trace::LaunchIndex& freed = trace_.tensors[tensor].freed_before;
        if (freed != Trace::kNone) freed = std::max(freed, static_cast<Trace::LaunchIndex>(i + 1));
      }
    }
  }
  trace_.steps.push_back(static_cast<Trace::LaunchIndex>(trace_.launches.size()));
  trace_.source = "ebb run --record";
}

}  // namespace

void Recorder::allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  next_serial_ = allocation + 1;
  live_[allocation] = blocks;
  current_.add_allocation(allocation, bytes);
  policy_->allocated(allocation, bytes, blocks);
}

void Recorder::mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  live_[allocation] = blocks;
  policy_->mapped(allocation, bytes, blocks);
}

void Recorder::freed(std::uint64_t allocation) {
  live_.erase(allocation);
  current_.add_free(allocation);
  policy_->freed(allocation);
}

void Recorder::launched(std::uint64_t op, std::span<const Touch> touches) {
  first_blocks_.clear();
  for (const Touch& touch : touches) first_blocks_.push_back(live_.at(touch.allocation).first);
  if (!touches.empty()) current_.add_launch(op, touches, first_blocks_);
  policy_->launched(op, touches);
}

void Recorder::ran(std::uint64_t ns) {
  current_.add_duration(ns);
  policy_->ran(ns);
}

void Recorder::step() {
  std::swap(before_, last_);
  std::swap(last_, current_);
  current_.begin(next_serial_, last_.start());
  if (last_.usable()) ++whole_;
  policy_->step();
}

Trace Recorder::trace() const { return Cutter(before_, last_, names_).cut(); }

}  // namespace ebb
