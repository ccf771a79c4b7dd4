// See shrink.h.
#include "sim/fuzz/shrink.h"

#include <algorithm>

namespace ebb {
namespace {

class Shrinker {
 public:
  Shrinker(const Scenario& scenario, const std::function<bool(const Scenario&)>& fails, std::uint32_t tries_max)
      : shortest_(scenario), fails_(fails), tries_left_(tries_max), tries_max_(tries_max) {}

  Shrunk run() {
    remove_operations();
    simplify_machine();
    remove_operations();
    return {shortest_, tries_max_ - tries_left_};
  }

 private:
  bool take(const Scenario& candidate) {
    if (tries_left_ == 0) return false;
    --tries_left_;
    if (!fails_(candidate)) return false;
    shortest_ = candidate;
    return true;
  }

  // The last ones first: those after the failure matter least.
  void remove_operations() {
    for (std::size_t part = std::max<std::size_t>(shortest_.operations.size() / 2, 1);; part /= 2) {
      bool removed = true;
      while (removed && tries_left_ > 0) removed = remove_parts(part) && part == 1;
      if (part == 1 || tries_left_ == 0) return;
    }
  }

  bool remove_parts(std::size_t part) {
    bool removed = false;
    for (std::size_t end = shortest_.operations.size(); end > 0; end -= std::min(end, part)) {
      const std::size_t begin = end - std::min(end, part);
      Scenario candidate = shortest_;
      const auto at = candidate.operations.begin();
      candidate.operations.erase(at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(end));
      removed |= take(candidate);
    }
    return removed;
  }

  template <typename Change>
  void try_to(Change&& change) {
    Scenario candidate = shortest_;
    change(candidate);
    static_cast<void>(take(candidate));
  }

  void simplify_machine() {
    try_to([](Scenario& scenario) { scenario.faults = FaultPlan(); });
    const FaultPlan faults = shortest_.faults;
    for (std::size_t i = 0; i < kFaults; ++i) {
      if (faults[Fault(i)].numerator == 0) continue;
      try_to([&](Scenario& scenario) { scenario.faults[Fault(i)] = {}; });
    }
    if (faults.extents_available != FaultPlan().extents_available) {
      try_to([](Scenario& scenario) { scenario.faults.extents_available = FaultPlan().extents_available; });
    }
    if (faults.frames_available != FaultPlan().frames_available) {
      try_to([](Scenario& scenario) { scenario.faults.frames_available = FaultPlan().frames_available; });
    }
    if (shortest_.host_extents > 0) try_to([](Scenario& scenario) { scenario.host_extents = 0; });
    try_to([](Scenario& scenario) { scenario.policy = "on_demand"; });
    if (shortest_.policy != "on_demand") try_to([](Scenario& scenario) { scenario.policy = "window"; });
    try_to([](Scenario& scenario) { scenario.pinned_percent = 0; });
  }

  Scenario shortest_;
  const std::function<bool(const Scenario&)>& fails_;
  std::uint32_t tries_left_;
  std::uint32_t tries_max_;
};

}  // namespace

Shrunk shrink(const Scenario& scenario, const std::function<bool(const Scenario&)>& fails, std::uint32_t tries_max) {
  return Shrinker(scenario, fails, tries_max).run();
}

}  // namespace ebb
