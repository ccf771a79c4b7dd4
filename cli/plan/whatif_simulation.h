// A step of a trace within some memory, in virtual time: what `ebb plan` foretells. Pure but for its time.
#pragma once

#include "plan/machine.h"
#include "plan/trace.h"
#include "plan/whatif_report.h"

namespace ebb::cli {

// Fills in what a step takes with the policy foresight in row.memory_bytes of this machine, or why there is no result.
WhatIfRow simulate(const Trace& trace, const Machine& machine, WhatIfRow row);

}  // namespace ebb::cli
