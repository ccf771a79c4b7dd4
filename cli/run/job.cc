// See job.h.
#include "run/job.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
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

// The pages that there are, by the number of their rank.
std::map<std::uint32_t, std::string> pages_of(const std::string& stats_path) {
  const std::filesystem::path path(stats_path);
  const std::string prefix = path.filename().string() + ".rank";
  std::map<std::uint32_t, std::string> pages;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), failed)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    std::uint32_t number = 0;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data() + prefix.size(), end, number).ptr == end) pages[number] = entry.path().string();
  }
  return pages;
}

}  // namespace

std::vector<Rank> read_ranks(const std::string& stats_path) {
  std::vector<Rank> ranks;
  for (const auto& [number, page] : pages_of(stats_path)) {
    if (auto reading = read_final_stats(page)) ranks.push_back({number, std::move(*reading), read_step_seconds(page)});
  }
  return ranks;
}

std::optional<StatsReading> read_job(const std::string& stats_path, bool ended) {
  std::optional<StatsReading> job = read(stats_path, ended);
  for (const auto& [number, page] : pages_of(stats_path)) {
    const auto rank = read(page, ended);
    if (!rank) continue;
    if (!job) {
      job = rank;
      continue;
    }
    add(job->stats, rank->stats);
    job->steps_fetched_bytes += rank->steps_fetched_bytes;
    if (rank->step_count > job->step_count) {
      job->step_count = rank->step_count;
      job->recent_step_seconds = rank->recent_step_seconds;
    }
  }
  return job;
}

}  // namespace ebb::cli
