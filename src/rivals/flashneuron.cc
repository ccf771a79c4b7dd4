// See flashneuron.h.
#include "rivals/flashneuron.h"

#include <algorithm>

namespace ebb {
namespace {

using Position = Recording::Position;

// A tensor of this iteration, from one use to the next.
struct Idle {
  std::uint32_t use = 0;
  std::uint64_t bytes = 0;
  Position after = 0;
  Position before = 0;
};

std::vector<Idle> idle_periods(const Recording& recording) {
  std::vector<Idle> idle;
  for (Position i = 0; i < recording.size(); ++i) {
    const Recording::Event& event = recording.event(i);
    if (event.kind != Recording::Kind::kLaunch) continue;
    for (std::uint32_t u = 0; u < event.uses; ++u) {
      const Recording::Use& use = recording.uses(event)[u];
      const Recording::Reference& reference = recording.reference(use.reference);
      if (!recording.made_here(reference.serial) || use.next == Recording::kNever || use.next <= i + 1) continue;
      idle.push_back({event.first_use + u, reference.bytes, i, use.next});
    }
  }
  return idle;
}

// Adds up by event; `add(first, end, bytes)` is for events [first, end).
class Sums {
 public:
  explicit Sums(Position size) : changes_(size + std::size_t{1}, 0) {}
  void add(Position first, Position end, std::uint64_t bytes) {
    changes_[first] += static_cast<std::int64_t>(bytes);
    changes_[end] -= static_cast<std::int64_t>(bytes);
  }
  std::vector<std::uint64_t> take() const {
    std::vector<std::uint64_t> sums;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i + 1 < changes_.size(); ++i)
      sums.push_back(static_cast<std::uint64_t>(sum += changes_[i]));
    return sums;
  }

 private:
  std::vector<std::int64_t> changes_;
};

// Where forward turns into backward: the event across which most bytes lie idle.
Position turning_point(const Recording& recording, const std::vector<Idle>& idle) {
  Sums sums(recording.size());
  for (const Idle& each : idle) sums.add(each.after + 1, each.before, each.bytes);
  const auto across = sums.take();
  return static_cast<Position>(std::max_element(across.begin(), across.end()) - across.begin());
}

std::vector<std::uint64_t> live_bytes(const Recording& recording) {
  std::uint64_t live = 0;
  for (std::uint32_t i = 0; i < recording.references(); ++i) {
    if (!recording.made_here(recording.reference(i).serial)) live += recording.reference(i).bytes;
  }
  std::vector<std::uint64_t> by_event;
  for (Position i = 0; i < recording.size(); ++i) {
    const Recording::Event& event = recording.event(i);
    if (event.kind == Recording::Kind::kAllocation) live += recording.reference(event.reference).bytes;
    if (event.kind == Recording::Kind::kFree && event.reference != Recording::kNone) {
      live -= std::min(live, recording.reference(event.reference).bytes);
    }
    by_event.push_back(live);
  }
  return by_event;
}

std::uint64_t largest_working_set(const Recording& recording) {
  std::uint64_t most = 0;
  for (Position i = 0; i < recording.size(); ++i) {
    const Recording::Event& event = recording.event(i);
    std::uint64_t bytes = 0;
    for (const Recording::Use& use : recording.uses(event)) bytes += recording.reference(use.reference).bytes;
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::uint64_t FlashNeuron::keep(BlockIndex index, const Block& block) const {
  const bool weight = index.value() < weight_.size() && weight_[index.value()];
  return (weight ? kWeight : 0) + Scheduled::keep(index, block);
}

void FlashNeuron::began(bool changed) {
  Scheduled::began(changed);
  if (!changed) return;
  weight_.assign(blocks_seen(), false);
  for (std::uint32_t i = 0; i < plan().references(); ++i) {
    if (plan().made_here(plan().reference(i).serial)) continue;
    const BlockRange blocks = blocks_of(plan().reference(i).serial);
    for (BlockIndex block = blocks.first; block != blocks.end(); block = block.next()) weight_[block.value()] = true;
  }
}

Plan FlashNeuron::make_schedule(const Recording& recording, const PlanLimits& limits) const {
  Plan plan;
  plan.by_use.assign(recording.uses_total(), Plan::kStays);
  std::vector<Idle> idle = idle_periods(recording);
  const Position turn = turning_point(recording, idle);
  std::erase_if(idle, [&](const Idle& each) { return each.after >= turn || each.before <= turn; });
  // Offloaded from the front until the rest fits beside the largest working set.
  std::vector<std::uint64_t> present = live_bytes(recording);
  const std::uint64_t bytes_max = limits.block_bytes * limits.frames;
  const std::uint64_t working_set = largest_working_set(recording);
  const std::uint64_t room = bytes_max - std::min(bytes_max, working_set);
  std::uint64_t excess = present.empty() || present[turn] <= room ? 0 : present[turn] - room;
  std::vector<Idle> offloaded;
  for (const Idle& each : idle) {
    if (excess == 0) break;
    excess -= std::min(excess, each.bytes);
    offloaded.push_back(each);
    for (Position i = each.after + 1; i < each.before; ++i) present[i] -= std::min(present[i], each.bytes);
  }
  // They return in the order of need, each as soon as there is room, and the next not before it.
  std::stable_sort(offloaded.begin(), offloaded.end(),
                   [](const Idle& left, const Idle& right) { return left.before < right.before; });
  Position earliest = turn;
  for (const Idle& each : offloaded) {
    while (earliest < each.before && present[earliest] + each.bytes > room) ++earliest;
    for (Position i = earliest; i < each.before; ++i) present[i] += each.bytes;
    TensorAbsence absence;
    absence.use = each.use;
    absence.blocks = Recording::kNone;  // all of them
    absence.after = each.after;
    absence.before = each.before;
    absence.return_from = std::max(std::min(earliest, each.before), each.after + 1);
    plan.absences.push_back(absence);
    earliest = std::min(earliest, each.before);
  }
  std::sort(plan.absences.begin(), plan.absences.end(),
            [](const TensorAbsence& left, const TensorAbsence& right) { return left.use < right.use; });
  for (std::uint32_t i = 0; i < plan.absences.size(); ++i) plan.by_use[plan.absences[i].use] = i;
  return plan;
}

}  // namespace ebb
