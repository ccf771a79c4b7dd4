// `ebb run`: starts an unmodified program so that all processes of it which use memory share one budget, and accounts
// for what happened. Main thread.
#pragma once

#include <string>
#include <vector>

namespace ebb::cli {

// As written on the command line, or in the environment variable of the same name; empty: not given.
struct RunArguments {
  std::string memory;
  std::string device_memory;  // empty: tensors of the CPU
  std::string device;
  std::string flash;
  std::string policy;
  std::string record;
  std::string record_iterations;
  std::string guide;
  std::string block;
  std::string managed_min;
  std::string summary;
  std::string report;  // a page
  std::string events;  // the same over time, for Perfetto
  std::string share;   // how processes share the budget
  std::string verify;  // what proves that a block is unchanged
  bool encrypt = false;
  bool no_core_dumps = false;
  bool strict = false;  // refuse a process that cannot be managed
  bool quiet = false;
  bool json = false;
  std::vector<std::string> command;
};

// The exit code for `ebb`. Throws Error when something given cannot work; the program has not been started then. Ends
// this process by the program's own signal if one ended the program.
int run_program(const RunArguments& arguments);

}  // namespace ebb::cli
