// The planner of G10 as it was published (Zhang et al., MICRO 2023, sections 4.3 and 4.4; its artifact fills in the
// details): the rival of planner.h.
//
// Until what is present fits in memory at every launch, the tensor leaves whose absence saves most, counted as bytes x
// time over launches that do not fit. It leaves whole, right after its use; to flash, unless the lane there is full and
// host memory has room for it; and only if it is idle for 2.5 times as long as its transfer. Every lane has a bin of
// bytes for every launch. Fetches begin as late as the bins allow, and then as much earlier as there is room.
//
// A pure function, some hundred milliseconds for 1500 launches: all periods are ranked again after each choice.
#pragma once

#include "plan/planner/planner.h"

namespace ebb {

struct G10Limits {
  PlanLimits plan;
  // Whether host traffic has only what flash leaves of the device link, as in G10-Host.
  bool host_beside_flash = false;
};

Plan make_g10_plan(const Recording& recording, const G10Limits& limits);

}  // namespace ebb
