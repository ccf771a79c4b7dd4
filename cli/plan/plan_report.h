// What `ebb plan` found out, and how it is told: a table for people, one JSON object for programs. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "bound/lower_bound.h"
#include "plan/machine.h"
#include "plan/trace.h"
#include "plan/vitality.h"

namespace ebb::cli {

struct PlanFindings {
  const Trace& trace;
  const Vitality& vitality;
  const Vitality& counted;  // of what the bounds are of: of a sequence the part after the warm-up
  const Machine& machine;
  std::uint32_t warm_up = 0;  // iterations of a sequence that do not count in the bounds
  Bound written;              // if every absence is written, as in G10
  Bound kept;                 // if clean copies are kept below
};

// "launch 17 (conv)".
std::string launch_text(const Trace& trace, std::uint32_t launch);

// The parts of the table before and after the plot.
std::string describe_memory(const PlanFindings& findings);
std::string describe_bounds(const PlanFindings& findings);
std::string to_json(const PlanFindings& findings);

}  // namespace ebb::cli
