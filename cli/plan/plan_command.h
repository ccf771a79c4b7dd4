// `ebb plan TRACE`: will it fit, how fast can it be, which link binds. Reads the file, writes to stdout; one thread.
#pragma once

#include <string>

#include "machine_options.h"

namespace ebb::cli {

struct PlanArguments {
  std::string trace;
  MachineArguments machine;
  std::string warm_up;
  std::string html;  // a file for the plot; empty: none
  bool json = false;
};

// The exit code: 0, also if the trace does not fit. Throws Error for what the user gave.
int plan_trace(const PlanArguments& arguments);

}  // namespace ebb::cli
