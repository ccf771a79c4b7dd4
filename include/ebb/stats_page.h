// StatsPage: how a running program shows its statistics to `ebb run`: one mapped file, written by the runtime and read
// by the command line, which therefore also has them when the program was killed.
//
// One writer. A reader copies `stats` between two equal even readings of `sequence`, or tries again.
#pragma once

#include <atomic>
#include <cstdint>

#include "ebb/stats.h"
#include "ebb/waits/run_timeline.h"
#include "ebb/waits/wait_table.h"

namespace ebb {

struct StatsPage {
  static constexpr std::uint64_t kMagic = 0x3730656469746265;  // "ebtide07"
  static constexpr std::uint32_t kStepsMax = 65536;            // then the oldest are overwritten

  std::atomic<std::uint64_t> magic;     // written last: the page is valid once it reads kMagic
  std::atomic<std::uint64_t> sequence;  // odd while `stats` is being written
  std::uint64_t process;                // of the writer
  Stats stats;
  char policy[32];
  char description[480];
  std::atomic<std::uint64_t> steps_fetched_bytes;  // of Stats::fetched_bytes: since the first step began
  std::atomic<std::uint64_t> step_count;
  double step_seconds[kStepsMax];  // step n at n % kStepsMax
  WaitTable waits;
  RunTimeline timeline;
};

}  // namespace ebb
