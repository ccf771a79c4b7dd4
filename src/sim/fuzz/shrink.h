// Shrinking: from a scenario that fails to a short one that still does: first operations are taken away, in ever
// smaller parts (delta debugging), then faults and whatever else the machine has, then operations once more. What
// failing means is the caller's to say, so that this knows no processes. Deterministic; one thread.
//
// Source: Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, IEEE TSE 28 (2), 2002.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/scenario.h"

namespace ebb {

struct Shrunk {
  Scenario scenario;
  std::uint32_t tries = 0;
};

// Asks `fails` at most `tries_max` times; the result is the shortest for which it said yes, or `scenario` itself.
Shrunk shrink(const Scenario& scenario, const std::function<bool(const Scenario&)>& fails, std::uint32_t tries_max);

}  // namespace ebb
