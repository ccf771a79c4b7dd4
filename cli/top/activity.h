// What runs did between two readings of them. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/waits/waits.h"
#include "top/run_finder.h"

namespace ebb::cli {

struct Rates {
  double fetch_bps = 0;
  double evict_bps = 0;
  double stalled = 0;                        // share of the time
  std::array<double, kWaitCauses> causes{};  // of that, by cause
};

struct ProcessActivity {
  const ProcessReading* process = nullptr;
  pid_t run = 0;  // of its `ebb`
  Rates rates;
};

struct RunActivity {
  const RunReading* run = nullptr;
  std::uint64_t resident_bytes = 0;  // of all its processes
  std::uint64_t flash_bytes = 0;
  Rates rates;  // sums, but for the share of time, which is that of who waited most
  std::vector<ProcessActivity> processes;
};

struct Activity {
  double seconds = 0;  // between the two readings; 0: there was only one, and nothing has a rate
  std::vector<RunActivity> runs;
};

// Refers to `now`, which must outlive it.
Activity activity_between(const Readings& before, const Readings& now);

}  // namespace ebb::cli
