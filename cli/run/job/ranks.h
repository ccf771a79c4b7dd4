// What the processes of a job wrote about themselves. Each has a page of its own: that of the run, or one beside it,
// named by the number of a rank that a launcher has started on this machine, or else by the process. Stateless, as
// stats_reader.h is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/stats_reader.h"

namespace ebb::cli {

// What they are called: that of the run, and behind its name one of these and a number.
inline constexpr const char* kStatsPage = "stats";
inline constexpr const char* kRankPage = ".rank";
inline constexpr const char* kProcessPage = ".p";

struct Rank {
  std::uint32_t number = 0;  // of the rank, or of the process
  StatsReading reading;
  std::vector<double> step_seconds;
};

// By number, after all have ended: the ranks, and the processes that have no better name.
std::vector<Rank> read_ranks(const std::string& stats_path);
std::vector<Rank> read_others(const std::string& stats_path);

// `ended`: as read_final_stats() reads. Of all together: sums, but for steps, and
// for the time that was waited, which are those of the rank that has most. Nothing if there is no page at all.
// `processes`: how many wrote one.
std::optional<StatsReading> read_job(const std::string& stats_path, bool ended, std::size_t* processes = nullptr);

}  // namespace ebb::cli
