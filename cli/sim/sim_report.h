// What a simulation found, as a table for people and as JSON for programs. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bound/lower_bound.h"
#include "plan/trace.h"
#include "sim/trace_simulator.h"
#include "text.h"

namespace ebb::cli {

struct SimResult {
  std::string policy;
  std::vector<TraceSimulator::Iteration> iterations;  // not empty
};

struct SimFindings {
  const Trace& trace;
  std::string file;
  TraceSimulator::Options options;
  std::uint32_t warm_up = 0;  // of a sequence: the iterations after these count; otherwise the last one
  double vary = 0;
  std::uint64_t seed = 0;
  bool no_bound = false;  // it was not asked for
  std::vector<SimResult> results;
  Bound bound;          // with clean copies kept below, as the runtime does
  Bound bound_written;  // if all that leaves were written, as in G10
};

bool is_artifact(const SimFindings& findings);

// Why there is no bound to compare with; "" if there is one.
std::string bound_note(const SimFindings& findings);

std::string to_table(const SimFindings& findings, bool colour);
std::string to_json(const SimFindings& findings);

}  // namespace ebb::cli
