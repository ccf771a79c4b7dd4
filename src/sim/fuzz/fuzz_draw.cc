// See fuzz_draw.h.
#include "sim/fuzz/fuzz_draw.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/rng.h"
#include "core/core.h"
#include "rivals/policies.h"

namespace ebb {
namespace {

using Weights = std::array<std::uint32_t, kFuzzActions>;

// By action, in their order. What does much at once is rarer; pins have a percentage of their own.
constexpr Weights kUsualWeights{320, 200, 360, 320, 240, 200, 100, 100, 12, 120, 20, 14,
                                7,   10,  20,  40,  20,  40,  40,  0,   20, 30,  30, 20};

// The most often that a fault of a kind happens: once in so many chances.
constexpr std::uint32_t most_often(Fault fault) {
  switch (fault) {
    case Fault::kReadErrorForever: return 64;
    case Fault::kWriteErrorForever: return 32;
    case Fault::kCorruptAtRest:
    case Fault::kBitRot:
    case Fault::kLostWrite:
    case Fault::kMisdirectedWrite:
    case Fault::kTornWrite: return 48;
    case Fault::kWriteError: return 6;
    case Fault::kBusy: return 3;
    case Fault::kCreateError:
    case Fault::kShortTransfer:
    case Fault::kSlow: return 4;
    case Fault::kStall: return 40;
    case Fault::kReadError:
    case Fault::kCorruptRead:
    case Fault::kStaleRead:
    case Fault::kNoSpace: return 8;
  }
  return 8;
}

FaultPlan draw_faults(Rng& rng, const Scenario& scenario) {
  FaultPlan plan;
  if (rng.chance(1, 4)) return plan;
  const std::uint64_t share = rng.between(2, 8);  // one kind in so many
  for (std::size_t i = 0; i < kFaults; ++i) {
    if (!rng.chance(1, share)) continue;
    plan[Fault(i)] = {1, static_cast<std::uint32_t>(most_often(Fault(i)) * rng.between(1, 8))};
  }
  if (rng.chance(1, 4)) plan.extents_available = static_cast<std::uint32_t>(rng.below(scenario.extents + 1));
  if (rng.chance(1, 8)) {
    plan.frames_available = static_cast<std::uint32_t>(rng.between(Core::kFramesMin, scenario.frames));
  }
  return plan;
}

// Only faults of time: nothing is refused, and nothing lost.
bool harmless(const FaultPlan& plan) {
  FaultPlan rest = plan;
  for (const Fault fault : {Fault::kShortTransfer, Fault::kSlow, Fault::kStall}) rest[fault] = {};
  return rest == FaultPlan();
}

std::string draw_policy(Rng& rng) {
  const std::uint64_t dice = rng.below(16);
  if (dice < 8) return "foresight";
  if (dice < 12) return "window";
  if (dice < 14) return "on_demand";
  const auto names = all_policy_names();
  return std::string(names[rng.below(names.size())]);
}

void draw(Scenario& scenario, Rng& rng, const Weights& weights) {
  const std::uint64_t all = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  while (scenario.operations.size() < scenario.steps) {
    std::uint64_t dice = rng.below(all);
    std::size_t action = 0;
    while (dice >= weights[action]) dice -= weights[action++];
    scenario.operations.push_back({FuzzAction(action), static_cast<std::uint32_t>(rng.next())});
    if (rng.below(100) >= scenario.pinned_percent) continue;
    scenario.operations.push_back({FuzzAction::kPin, static_cast<std::uint32_t>(rng.next())});
  }
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, std::uint32_t steps) {
  Rng rng(seed ^ 0x5ce7a110u);
  Scenario scenario;
  scenario.seed = seed;
  scenario.steps = steps;
  // Mostly small: an operation there takes less time, and meets the others sooner.
  const std::uint64_t frames = rng.between(Core::kFramesMin, rng.chance(1, 4) ? 64 : 24);
  scenario.frames = static_cast<std::uint32_t>(rng.chance(1, 3) ? Core::kFramesMin : frames);
  const std::uint64_t extents = rng.between(16, rng.chance(1, 4) ? 160 : 64);
  scenario.extents = static_cast<std::uint32_t>(rng.chance(1, 5) ? rng.below(9) : extents);
  scenario.policy = draw_policy(rng);
  scenario.pinned_percent = rng.chance(1, 4) ? static_cast<std::uint32_t>(rng.between(1, 20)) : 0;
  scenario.faults = draw_faults(rng, scenario);
  // Host memory does not fail, so it is there only where nothing does.
  if (harmless(scenario.faults) && rng.chance(1, 2)) {
    scenario.host_extents = static_cast<std::uint32_t>(rng.between(1, 64));
  }
  scenario.steady = harmless(scenario.faults) && rng.chance(1, 2);
  Weights weights = kUsualWeights;
  constexpr std::array<std::uint32_t, 6> kTimes{0, 1, 1, 2, 4, 12};
  for (std::uint32_t& weight : weights) weight *= kTimes[rng.below(kTimes.size())];
  std::uint32_t& allocate = weights[static_cast<std::size_t>(FuzzAction::kAllocate)];
  allocate = std::max(allocate, kUsualWeights[static_cast<std::size_t>(FuzzAction::kAllocate)]);
  draw(scenario, rng, weights);
  return scenario;
}

void draw_operations(Scenario& scenario) {
  Rng rng(scenario.seed ^ 0x0def417u);
  draw(scenario, rng, kUsualWeights);
}

}  // namespace ebb
