// See job.h.
#include "run/job.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ebb::cli {
namespace {

std::optional<StatsReading> read(const std::string& path, bool ended) {
  return ended ? read_final_stats(path) : read_stats(path);
}

void add(Stats& sum, const Stats& stats) {
  for (const auto& [name, counter] : kStatsFields) {
    const bool most = counter == &Stats::stall_ns || counter == &Stats::steps;
    sum.*counter = most ? std::max(sum.*counter, stats.*counter) : sum.*counter + stats.*counter;
  }
}

}  // namespace

std::vector<Rank> read_ranks(const std::string& stats_path, bool ended) {
  const std::filesystem::path path(stats_path);
  const std::string prefix = path.filename().string() + ".rank";
  std::vector<Rank> ranks;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), failed)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    Rank rank;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data() + prefix.size(), end, rank.number).ptr != end) continue;
    auto reading = read(entry.path().string(), ended);
    if (!reading) continue;
    rank.reading = std::move(*reading);
    rank.step_seconds = read_step_seconds(entry.path().string());
    ranks.push_back(std::move(rank));
  }
  std::sort(ranks.begin(), ranks.end(), [](const Rank& left, const Rank& right) { return left.number < right.number; });
  return ranks;
}

std::optional<StatsReading> read_job(const std::string& stats_path, bool ended) {
  std::optional<StatsReading> job = read(stats_path, ended);
  for (const Rank& rank : read_ranks(stats_path, ended)) {
    if (!job) {
      job = rank.reading;
      continue;
    }
    add(job->stats, rank.reading.stats);
    if (rank.reading.step_count > job->step_count) {
      job->step_count = rank.reading.step_count;
      job->last_step_seconds = rank.reading.last_step_seconds;
    }
  }
  return job;
}

}  // namespace ebb::cli
