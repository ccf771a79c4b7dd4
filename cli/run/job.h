// The ranks of a job: what a launcher (torchrun) has started on this machine under one `ebb run`. Each has a page of
// its own beside that of the run, named by its number, and an equal share of the budget. Stateless, as stats_reader.h
// is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/stats_reader.h"

namespace ebb::cli {

struct Rank {
  std::uint32_t number = 0;
  StatsReading reading;
  std::vector<double> step_seconds;
};

// By number, after all have ended.
std::vector<Rank> read_ranks(const std::string& stats_path);

// `ended`: as read_final_stats() reads. Of the run's own process and of its ranks together: sums, but for steps, and
// for the time that was waited, which are those of the rank that has most. Nothing if there is no page at all.
std::optional<StatsReading> read_job(const std::string& stats_path, bool ended);

}  // namespace ebb::cli
