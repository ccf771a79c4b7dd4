// `ebb plan -- COMMAND`: what a program would need and how long its steps would take within less memory, found out
// before it runs. The program runs with fake tensors (python/ebbtide/whatif) until it has shown what a step
// does; that trace is then simulated with one budget after the other. Main thread.
#pragma once

#include <string>
#include <vector>

#include "machine_options.h"

namespace ebb::cli {

// As written on the command line; empty: not given.
struct WhatIfArguments {
  std::string memory;  // budgets, separated by commas
  std::string flash;   // the directory whose speed counts
  std::string steps;
  std::string to;  // a file for the trace
  MachineArguments machine;
  bool json = false;
  std::vector<std::string> command;
};

// The exit code: 0; 1 if the program could not be followed; 126 or 127 if it could not be started. Throws Error for
// what the user gave.
int plan_program(const WhatIfArguments& arguments);

}  // namespace ebb::cli
