// What a fuzzer's run is made of, drawn from its seed: a machine, a policy, which faults there are, and a program. Runs
// differ in kind and not only in degree: each draws which faults and which operations exist at all, and then how often
// they happen (swarm testing). Pure functions.
//
// Source: Groce, Zhang, Eide, Chen, Regehr: Swarm testing, ISSTA 2012.
#pragma once

#include <cstdint>

#include "sim/scenario.h"

namespace ebb {

// Everything, with `steps` operations.
Scenario draw_scenario(std::uint64_t seed, std::uint32_t steps);

// The operations of a scenario that has none of its own; those that nothing was drawn against.
void draw_operations(Scenario& scenario);

}  // namespace ebb
