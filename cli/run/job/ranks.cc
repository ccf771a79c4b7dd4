// See ranks.h.
#include "run/job/ranks.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "numbers.h"

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

// The pages that there are of this kind, by number.
std::map<std::uint32_t, std::string> pages_of(const std::string& stats_path, const char* kind) {
  const std::filesystem::path path(stats_path);
  const std::string prefix = path.filename().string() + kind;
  std::map<std::uint32_t, std::string> pages;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), failed)) {
    const std::string name = entry.path().filename().string();
    if (const auto number = number_after(prefix, name)) pages[*number] = entry.path().string();
  }
  return pages;
}

std::vector<Rank> read_all(const std::string& stats_path, const char* kind) {
  std::vector<Rank> ranks;
  for (const auto& [number, page] : pages_of(stats_path, kind)) {
    if (auto reading = read_final_stats(page)) ranks.push_back({number, std::move(*reading), read_step_seconds(page)});
  }
  return ranks;
}

bool lives(std::uint32_t process) {
  std::error_code none;
  return std::filesystem::exists("/proc/" + std::to_string(process), none);
}

// What a process that has ended had is nobody's.
void forget_present(Stats& stats) {
  stats.budget_bytes = stats.resident_bytes = stats.small_bytes = stats.live_bytes = 0;
  stats.shared_bytes = 0;
  stats.flash_bytes = stats.flash_limit_bytes = stats.cached_bytes = 0;
}

void join(std::optional<StatsReading>& job, std::optional<StatsReading> other) {
  if (!other) return;
  if (!job) {
    job = std::move(other);
    return;
  }
  if (other->stats.stall_ns > job->stats.stall_ns) {
    job->waits = std::move(other->waits);
    job->page = std::move(other->page);
  }
  add(job->stats, other->stats);
  job->steps_fetched_bytes += other->steps_fetched_bytes;
  if (other->step_count <= job->step_count) return;
  job->step_count = other->step_count;
  job->recent_step_seconds = std::move(other->recent_step_seconds);
}

}  // namespace

std::vector<Rank> read_ranks(const std::string& stats_path) { return read_all(stats_path, kRankPage); }

std::vector<Rank> read_others(const std::string& stats_path) { return read_all(stats_path, kProcessPage); }

std::optional<StatsReading> read_job(const std::string& stats_path, bool ended, std::size_t* processes) {
  std::optional<StatsReading> job = read(stats_path, ended);
  std::size_t count = job ? 1 : 0;
  for (const char* const kind : {kRankPage, kProcessPage}) {
    for (const auto& [number, page] : pages_of(stats_path, kind)) {
      std::optional<StatsReading> reading = read(page, ended);
      if (reading && kind == kProcessPage && !lives(number)) forget_present(reading->stats);
      count += reading ? 1 : 0;
      join(job, std::move(reading));
    }
  }
  if (processes != nullptr) *processes = count;
  return job;
}

}  // namespace ebb::cli
