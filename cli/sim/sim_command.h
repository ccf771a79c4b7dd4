// `ebb sim TRACE`: runs the trace on a simulated machine with one policy beside the other. Reads the file, writes to
// stdout, and how far it is to stderr if that is a terminal and it takes long; policies and bounds in parallel.
#pragma once

#include <cstdint>
#include <string>

#include "machine_options.h"

namespace ebb::cli {

struct SimArguments {
  std::string trace;
  MachineArguments machine;
  std::string policy = "all";
  std::string block;
  std::string timing = "strict";
  double vary = 0;
  std::string seed = "1";
  std::string iterations;  // empty: 5, or those of a sequence
  std::string warm_up;
  bool no_bound = false;
  std::string ranks;  // numbers, separated by commas; empty: one process, policies beside each other
  std::string network = "12.5GB/s";
  double latency_us = 10;
  std::string per_drive = "8";
  bool json = false;
};

// The exit code. Throws Error for what the user gave.
int simulate_trace(const SimArguments& arguments);

}  // namespace ebb::cli
