// See fluid.h.
#include "bound/fluid.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace ebb::fluid {
namespace {

constexpr std::uint64_t kShort = 8;  // an absence of less than this part of the longest is short

struct Cut {
  std::vector<Slot> slots;
  std::vector<std::uint32_t> gap;  // by launch: the slot that holds the gap after it; of a sequence, then that outside
};

// A launch of more than its share of the time has a slot of its own and its gap another, which is exact; shorter
// neighbours are gathered until they have their share.
Cut cut_time(const Vitality& vitality, std::uint32_t resolution) {
  const auto launches = static_cast<std::uint32_t>(vitality.live_bytes.size());
  const bool all_apart = launches <= resolution;
  const std::uint64_t share_ns = vitality.ideal_ns() / std::max<std::uint32_t>(resolution, 1) + 1;
  const std::uint32_t launches_each = launches / std::max<std::uint32_t>(resolution, 1) + 1;
  Cut cut;
  cut.gap.resize(launches);
  std::uint32_t in_slot = 0;  // launches in the last slot, if it is open
  for (std::uint32_t k = 0; k < launches; ++k) {
    const std::uint64_t ns = vitality.start_ns[k + 1] - vitality.start_ns[k];
    const std::uint64_t vital = vitality.vital_bytes[k];
    if (all_apart || ns >= share_ns) {
      cut.slots.push_back({ns, false, false, vital, vital});
      cut.slots.push_back({0, true, false, 0, 0});
      in_slot = 0;
    } else {
      if (in_slot == 0) cut.slots.push_back({0, true, false, vital, 0});
      Slot& slot = cut.slots.back();
      slot.ns += ns;
      slot.most_bytes = std::max(slot.most_bytes, vital);
      if (++in_slot >= launches_each || slot.ns >= share_ns) in_slot = 0;
    }
    cut.gap[k] = static_cast<std::uint32_t>(cut.slots.size() - 1);
  }
  if (vitality.sequence) {
    cut.slots.push_back({0, true, true, 0, 0});
    cut.gap.push_back(static_cast<std::uint32_t>(cut.slots.size() - 1));
  }
  return cut;
}

Absence absence_of(const Vitality::Period& period, const Cut& cut) {
  // Back at the end of the gap before `before`; that of launch 0 still belongs to this iteration.
  const auto launches = static_cast<std::uint32_t>(cut.gap.size());
  const std::uint32_t last = period.before == 0 ? launches - 1 : period.before - 1;
  const bool crosses = period.wraps && period.before != 0;
  return {cut.gap[period.after], cut.gap[last], period.needed, crosses, crosses};
}

// The periods of one content, in the order after it was made, which may run past the end of the iteration.
Class class_of(std::vector<const Vitality::Period*>& periods, const Cut& cut) {
  const auto launches = static_cast<std::uint32_t>(cut.gap.size());
  const std::uint32_t made = periods.front()->made;
  const auto since = [&](const Vitality::Period* period) {
    if (made == Vitality::kNone || period->after >= made) return period->after;
    return period->after + launches;
  };
  std::sort(periods.begin(), periods.end(), [&](const auto* a, const auto* b) { return since(a) < since(b); });
  Class result;
  result.clean = made == Vitality::kNone;
  result.made = result.clean ? 0 : cut.gap[made];
  result.bytes = periods.front()->bytes;
  for (const auto* period : periods) {
    result.absences.push_back(absence_of(*period, cut));
    result.absences.back().made_before |= since(period) >= launches;
  }
  return result;
}

std::size_t leading_of(const std::vector<Absence>& absences, const std::vector<std::uint64_t>& end_ns) {
  const auto ns = [&](const Absence& absence) {
    return end_ns[absence.due] - end_ns[absence.begin] + (absence.crosses ? end_ns.back() : 0);
  };
  std::uint64_t longest_ns = 0;
  for (const Absence& absence : absences) longest_ns = std::max(longest_ns, ns(absence));
  std::size_t first = 0;
  while (ns(absences[first]) < longest_ns / kShort) ++first;
  return first;
}

}  // namespace

Fluid make_fluid(const Vitality& vitality, const BoundOptions& options) {
  Cut cut = cut_time(vitality, options.resolution);
  // Contents: the periods of a tensor with the same `made`, or each period alone if every absence is written.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::vector<const Vitality::Period*>> contents;
  std::uint32_t number = 0;
  const bool kept = options.copies == Copies::kKeptClean;
  for (const auto& period : vitality.periods) {
    if ((!period.needed && vitality.dead == Dead::kVanishes) || period.bytes == 0) continue;
    contents[{period.tensor, kept ? period.made : 0, kept ? 0 : number++}].push_back(&period);
  }
  using Key = std::tuple<std::uint32_t, bool, std::vector<Absence>>;
  std::array<std::map<Key, std::uint64_t>, 2> classes;
  for (auto& [key, periods] : contents) {
    Class made = class_of(periods, cut);
    if (!kept) {
      made.made = made.absences.front().begin;
      made.absences.front().made_before = made.absences.front().crosses;
      made.clean = false;
    }
    const bool apart = kept && vitality.tensors[std::get<0>(key)].persistent;
    classes[apart ? 0 : 1][{made.made, made.clean, made.absences}] += made.bytes;
  }
  Fluid result;
  result.slots = std::move(cut.slots);
  std::vector<std::uint64_t> end_ns;
  for (const Slot& slot : result.slots) end_ns.push_back((end_ns.empty() ? 0 : end_ns.back()) + slot.ns);
  for (const auto& some : classes) {
    if (some.empty()) continue;
    Group& group = result.groups.emplace_back();
    for (const auto& [key, bytes] : some) {
      const auto& [made, clean, absences] = key;
      group.push_back({made, clean, absences, leading_of(absences, end_ns), bytes});
    }
  }
  return result;
}

std::vector<MemoryLimit> memory_limits(const Fluid& fluid, std::uint64_t device_bytes) {
  std::vector<MemoryLimit> limits;
  const auto slots = static_cast<std::uint32_t>(fluid.slots.size());
  for (std::uint32_t t = 0; t < slots; ++t) {
    const Slot& slot = fluid.slots[t];
    if (slot.first_bytes > device_bytes) {
      limits.push_back({(t + slots - 1) % slots, false, slot.first_bytes - device_bytes});
      // A launch alone keeps what it needs until it ends.
      if (!slot.stalls) limits.push_back({t, false, slot.first_bytes - device_bytes});
    }
    if (slot.most_bytes > device_bytes && slot.most_bytes > slot.first_bytes) {
      limits.push_back({t, true, slot.most_bytes - device_bytes});
    }
  }
  return limits;
}

}  // namespace ebb::fluid
