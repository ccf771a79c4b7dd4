// Decomposition: the bound with clean copies where one tier lies below device memory, with every content told apart.
//
// Its program has a variable for each itinerary of each class of contents, far too many to write down. Dantzig and
// Wolfe's decomposition (Operations Research 8, 1960) writes down those that matter: a program over the itineraries
// found so far gives prices of lanes and memory, at which each class names its cheapest itinerary, until none is new.
//
// What is handed out is computed from prices alone, whatever the solver did: at any prices that lanes can ask for, no
// schedule waits less than the cheapest itineraries of all contents are worth (docs/design/0005-lower-bound.md).
//
// It comes near its optimum towards the end of the search, and has little to say where that takes too long.
//
// A pure function; deterministic.
#pragma once

#include <array>

#include "bound/fluid.h"
#include "bound/lower_bound.h"
#include "plan/machine.h"

namespace ebb::fluid {

struct Waiting {
  double seconds = 0;                        // at least
  std::array<double, kResources> gain_ns{};  // by which it falls for each 1 % more of a resource
};

// `uses_flash`: the tier below is flash, otherwise host memory that holds everything.
Waiting least_waiting(const Fluid& fluid, const Machine& machine, bool uses_flash);

}  // namespace ebb::fluid
