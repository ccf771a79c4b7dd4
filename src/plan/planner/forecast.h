// Forecast: how long a steady iteration takes that follows a plan. The oracle of the planner, which cannot tell from
// the absences alone whether a write more or a fetch later costs less.
//
// Launches run in their order, each once its memory and its content are there; lanes pass whole transfers one after the
// other, and share the flash device where reads and writes do. Blocks are numbers: a lane takes a few at a time of what
// is needed first, or last on the way out. It leaves out what the engine does of its own accord, when a plan is late.
//
// A pure function, no clock: time is a number that it counts.
#pragma once

#include <cstdint>
#include <span>

#include "plan/planner/absence.h"
#include "plan/planner/cleanings.h"
#include "plan/planner/plan_limits.h"

namespace ebb {

// `start_ns`: when events begin if nothing waits, over two iterations. `live_blocks`: that exist at every event.
// `absences` in the order of their touches; `cleanings` of them, in the order of the events that they follow.
double forecast_ns(std::span<const double> start_ns, std::span<const std::uint64_t> live_blocks,
                   std::span<const PieceAbsence> absences, std::span<const Cleaning> cleanings,
                   const PlanLimits& limits);

}  // namespace ebb
