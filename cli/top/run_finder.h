// Finds the runs of this user and reads the pages of their processes. Stateless; any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "run/run_notice.h"
#include "run/stats_reader.h"

namespace ebb::cli {

// A process that lives and has a page.
struct ProcessReading {
  pid_t pid = 0;
  std::int64_t rank = -1;  // that a launcher gave it; -1: none
  std::string name;
  StatsReading reading;
};

struct RunReading {
  RunFacts facts;
  std::vector<ProcessReading> processes;  // by pid
};

struct Readings {
  std::chrono::steady_clock::time_point when;
  std::vector<RunReading> runs;  // by pid
};

Readings read_runs();

}  // namespace ebb::cli
