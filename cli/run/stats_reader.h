// Reads the statistics page (ebb/stats_page.h) that the managed program writes. Stateless: each reading opens the file
// anew, so a page that is not there yet, was replaced, or is cut short is simply no reading. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "ebb/stats.h"
#include "ebb/waits/run_timeline.h"
#include "ebb/waits/waits.h"

namespace ebb::cli {

struct StatsReading {
  std::uint64_t process = 0;  // of the writer
  Stats stats;
  std::string policy;
  std::string description;
  std::uint64_t steps_fetched_bytes = 0;
  std::uint64_t step_count = 0;
  std::vector<double> recent_step_seconds;  // of the newest steps, some of them, oldest first
  WaitReport waits;                         // read_final_stats() has it
  std::string page;                         // that these were read from
};

// A page that is open, with its waits.
std::optional<StatsReading> read_stats(const FileDescriptor& file);

// While the program runs: nothing when there is no valid page, or its writer is busy with it for unusually long.
std::optional<StatsReading> read_stats(const std::string& path);

// After the program has ended: as above, but also what a writer killed in the middle of an update left; every counter
// is then right by itself, and perhaps one update older than its neighbour.
std::optional<StatsReading> read_final_stats(const std::string& path);

// Memory and traffic over time; null where there is none.
std::unique_ptr<RunTimeline> read_timeline(const std::string& path);

// 0 of nothing.
double median(std::vector<double> values);

// Durations of the newest steps (at most StatsPage::kStepsMax), oldest first.
std::vector<double> read_step_seconds(const std::string& path);

}  // namespace ebb::cli
