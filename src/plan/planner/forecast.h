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
#include <vector>

#include "plan/drafting/absence.h"
#include "plan/drafting/plan_limits.h"
#include "plan/planner/cleanings.h"

namespace ebb {

struct Forecast {
  double ns = 0;  // of the iteration
  // A block less in an absence that is `urgent` would spare the launches the time that its lane takes for a block,
  // because they wait before the lane is idle again; one more in another costs nothing, as long as these are few.
  std::vector<bool> urgent;  // by absence
  double waited_blocks = 0;  // that the lanes could have brought while launches waited for what they brought
};

// `start_ns`: when events begin if nothing waits, over two iterations. `live_blocks`: that exist at every event.
// `absences` in the order of their touches; `cleanings` of them, in the order of the events that they follow.
Forecast forecast(std::span<const double> start_ns, std::span<const std::uint64_t> live_blocks,
                  std::span<const PieceAbsence> absences, std::span<const Cleaning> cleanings,
                  const PlanLimits& limits);

}  // namespace ebb
