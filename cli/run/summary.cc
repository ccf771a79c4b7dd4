// See summary.h.
#include "run/summary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "drivers/linux/flash/block_cipher.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "run/wait_account.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kProcessesShown = 8;
constexpr double kStallShareMin = 0.2;
constexpr double kReadBpsMin = 5e6;  // less is a rare block, and 0.00 GB/s

double stall_seconds(const RunAccount& account) { return static_cast<double>(account.stats.stall_ns) / 1e9; }

double stall_share(const RunAccount& account) {
  const double wall = account.outcome.wall_seconds;
  return wall > 0 ? std::min(1.0, stall_seconds(account) / wall) : 0.0;
}

std::string exit_text(const ChildOutcome& outcome) {
  if (outcome.signal == 0) return std::to_string(outcome.exit_code);
  return fmt::format("{} (signal {}, {})", outcome.exit_code, outcome.signal, ::strsignal(outcome.signal));
}

// How fast the disk was read from the first step to the last: loading a model, and what else happens once, would tell
// nothing of the steps to come.
double steps_read_bps(const RunAccount& account) {
  const double kept = std::accumulate(account.step_seconds.begin(), account.step_seconds.end(), 0.0);
  if (kept <= 0 || account.on_device) return 0;
  const double all = kept / static_cast<double>(account.step_seconds.size()) * static_cast<double>(account.step_count);
  return static_cast<double>(account.steps_fetched_bytes) / all;
}

std::uint64_t steps_found(const RunAccount& account) { return account.stats.steps > 0 ? 0 : account.step_count; }

std::string disk_text(const RunAccount& account, double bps) {
  const std::string rate = fmt::format("{:.2f} GB/s", bps / 1e9);
  if (account.disk_read_bps <= 0) {
    return fmt::format("{}; what share of the disk's speed that is, `ebb calibrate --flash {}` would tell", rate,
                       account.disk);
  }
  return fmt::format("{}, {:.0f} % of what was measured in {}", rate, 100 * bps / account.disk_read_bps, account.disk);
}

// As the program told of them, or else as they were found.
std::string steps_text(const RunAccount& account) {
  if (account.step_seconds.empty()) return std::to_string(account.stats.steps);
  const std::string time = format_seconds(median(account.step_seconds));
  if (account.stats.steps > 0) return fmt::format("{} (median {})", account.stats.steps, time);
  return fmt::format("{} found, such as tokens or batches (median {})", account.step_count, time);
}

// As the process says that had memory.
bool encrypted(const RunAccount& account) { return account.description.find(BlockCipher::kName) != std::string::npos; }

std::string unmanaged_reason(const RunAccount& account) {
  if (account.job && !account.job->processes.empty()) {
    return "no memory was managed: torch was imported, but nothing large enough was allocated";
  }
  if (account.imported_torch) {
    return "no memory was managed: torch was imported, but Ebbtide did not start in that process";
  }
  if (!account.not_loaded.empty()) return "no memory was managed: " + account.not_loaded;
  return "no memory was managed: the program never imported torch, nor mapped a file of 64 MiB or more (or ran Python "
         "with -I, -E or -S, which skip Ebbtide's hook, or what did is linked statically or set-uid)";
}

std::string rank_text(const Rank& rank) {
  const Stats& stats = rank.reading.stats;
  return fmt::format("peak resident {}, share in the end {}, fetched {}, evicted {}, stalled {}",
                     format_size(stats.peak_resident_bytes), format_size(stats.budget_bytes),
                     format_size(stats.fetched_bytes), format_size(stats.evicted_bytes),
                     format_seconds(static_cast<double>(stats.stall_ns) / 1e9));
}

nlohmann::ordered_json rank_json(const Rank& rank) {
  nlohmann::ordered_json json;
  json["rank"] = rank.number;
  json["median_step_seconds"] = median(rank.step_seconds);
  for (const auto& [name, counter] : kStatsFields) json[name] = rank.reading.stats.*counter;
  return json;
}

std::string outsider_text(const Outsider& outsider) {
  return fmt::format("'{}' (process {}), {} of its own: {}", outsider.name, outsider.pid,
                     format_size(outsider.own_bytes), outsider.why);
}

// Who else there was, as far as there is something to say.
template <typename Row>
void job_rows(const RunAccount& account, const Row& row) {
  std::uint64_t idle = 0;
  std::uint64_t refused = 0;
  for (const JobProcess& process : account.job->processes) {
    idle += process.used_memory ? 0 : 1;
    refused += process.refused ? 1 : 0;
  }
  for (const Outsider& outsider : account.job->outsiders) {
    row("outside the budget", outsider_text(outsider));
  }
  std::size_t shown = 0;
  for (const Rank& process : account.processes) {
    if (process.reading.stats.allocations == 0) continue;
    if (++shown <= kProcessesShown) row(fmt::format("process {}", process.number).c_str(), rank_text(process));
  }
  if (shown > kProcessesShown) row("other processes", std::to_string(shown - kProcessesShown));
  if (account.job->moved_bytes > 0) row("moved between processes", format_size(account.job->moved_bytes));
  if (account.job->processes.size() > 1 && idle > 0) {
    row("without tensors", fmt::format("{} process{} that only imported torch", idle, idle == 1 ? "" : "es"));
  }
  if (refused > 0) {
    row("without a place",
        fmt::format("{} process{}: the budget was too small for so many", refused, refused == 1 ? "" : "es"));
  }
}

// Where nothing was managed these are all that there is to tell.
std::string outsiders_text(const RunAccount& account) {
  std::string text;
  if (!account.job) return text;
  for (const Outsider& outsider : account.job->outsiders) {
    text += fmt::format("ebb: outside the budget: {}\n", outsider_text(outsider));
  }
  return text;
}

std::string budget_text(const RunAccount& account) {
  const std::string now = format_size(account.stats.budget_bytes);
  if (!account.job || !account.job->automatic) return now;
  return fmt::format("{} in the end; automatic, from {} to {}", now, format_size(account.job->budget_least_bytes),
                     format_size(account.job->budget_most_bytes));
}

nlohmann::ordered_json job_json(const JobFacts& job) {
  nlohmann::ordered_json json;
  json["budget_bytes"] = job.budget_bytes;
  json["budget_automatic"] = job.automatic;
  json["budget_least_bytes"] = job.budget_least_bytes;
  json["budget_most_bytes"] = job.budget_most_bytes;
  json["share"] = job.equal ? "equal" : "stalls";
  json["peak_resident_bytes"] = job.peak_resident_bytes;
  json["moved_bytes"] = job.moved_bytes;
  json["processes"] = nlohmann::ordered_json::array();
  for (const JobProcess& process : job.processes) {
    nlohmann::ordered_json entry;
    entry["pid"] = process.pid;
    entry["name"] = process.name;
    entry["rank"] = process.rank >= 0 ? nlohmann::ordered_json(process.rank) : nullptr;
    entry["used_memory"] = process.used_memory;
    entry["refused"] = process.refused;
    entry["peak_granted_bytes"] = process.peak_granted_bytes;
    entry["peak_resident_bytes"] = process.peak_resident_bytes;
    json["processes"].push_back(std::move(entry));
  }
  json["processes_not_listed"] = job.more_processes;
  json["outside_the_budget"] = nlohmann::ordered_json::array();
  for (const Outsider& outsider : job.outsiders) {
    json["outside_the_budget"].push_back({{"pid", outsider.pid},
                                          {"name", outsider.name},
                                          {"forked", outsider.forked},
                                          {"peak_bytes", outsider.own_bytes},
                                          {"why", outsider.why}});
  }
  return json;
}

std::string temporary_template(const std::string& target) { return target + ".XXXXXX"; }

}  // namespace

std::string block_advice(const RunAccount& account) {
  const Stats& stats = account.stats;
  const bool scattered = stats.scattered >= Stats::kScatteredMin && 2 * stats.scattered >= stats.faults;
  const bool large = account.block_bytes > Options::kSmallBlockBytes;
  if (!scattered || !large || stall_share(account) < kStallShareMin) return "";
  return fmt::format(
      "--block 256KiB may be many times faster: {:.0f} % of the touches that waited were in no order, as a sort or a "
      "shuffle makes them, and each brought {}",
      100.0 * static_cast<double>(stats.scattered) / static_cast<double>(stats.faults),
      format_size(account.block_bytes));
}

nlohmann::ordered_json summary_json(const RunAccount& account) {
  nlohmann::ordered_json json;
  json["managed"] = account.managed;
  json["on_device"] = account.on_device;
  json["encrypted"] = encrypted(account);
  json["policy"] = account.policy;
  json["description"] = account.description;
  json["command"] = account.command;
  json["exit_code"] = account.outcome.exit_code;
  json["signal"] = account.outcome.signal;
  json["wall_seconds"] = account.outcome.wall_seconds;
  json["stall_seconds"] = stall_seconds(account);
  json["stall_share"] = stall_share(account);
  json["median_step_seconds"] = median(account.step_seconds);
  for (const auto& [name, counter] : kStatsFields) json[name] = account.stats.*counter;
  json["step_seconds"] = account.step_seconds;
  json["steps_found"] = steps_found(account);
  const double bps = steps_read_bps(account);
  json["steps_fetched_bytes"] = account.steps_fetched_bytes;
  json["disk_read_bps"] = account.disk_read_bps > 0 ? nlohmann::ordered_json(account.disk_read_bps) : nullptr;
  json["disk_read_share"] =
      account.disk_read_bps > 0 && bps > 0 ? nlohmann::ordered_json(bps / account.disk_read_bps) : nullptr;
  json["waits"] = waits_json(account.waits);
  json["ranks"] = nlohmann::ordered_json::array();
  for (const Rank& rank : account.ranks) json["ranks"].push_back(rank_json(rank));
  json["unmanaged_processes"] = account.others;
  if (account.job) json["job"] = job_json(*account.job);
  return json;
}

std::string summary_table(const RunAccount& account, bool colour) {
  const char* bold = colour ? "\033[1m" : "";
  const char* plain = colour ? "\033[0m" : "";
  const std::string time = format_seconds(account.outcome.wall_seconds);
  if (!account.managed) {
    return fmt::format("{}ebb:{} {}; exit code {} after {}\n", bold, plain, unmanaged_reason(account),
                       exit_text(account.outcome), time) +
           outsiders_text(account);
  }
  const Stats& stats = account.stats;
  std::string table = fmt::format("{}ebb summary{}\n", bold, plain);
  const auto row = [&table](const char* label, const std::string& value) {
    table += fmt::format("  {:<23} {}\n", label, value);
  };
  row("policy", account.policy);
  row(account.on_device ? "GPU memory" : "memory budget", budget_text(account));
  if (encrypted(account)) row("on flash", std::string("encrypted, ") + BlockCipher::kName);
  row("peak resident", format_size(stats.peak_resident_bytes));
  row("peak live tensors", format_size(stats.peak_live_bytes));
  if (stats.peak_shared_bytes > 0) {
    row("shared memory", format_size(stats.peak_shared_bytes) + " at most, outside the budget");
  }
  const char* const below = account.on_device ? "host and flash" : "flash";
  row(fmt::format("fetched from {}", below).c_str(),
      fmt::format("{} ({} ahead of need)", format_size(stats.fetched_bytes), format_size(stats.prefetched_bytes)));
  row(fmt::format("evicted to {}", below).c_str(), format_size(stats.evicted_bytes));
  row("clean evictions skipped", format_size(stats.clean_bytes));
  if (stats.rewritten_bytes > 0) row("of files, written to", format_size(stats.rewritten_bytes));
  row("faults", std::to_string(stats.faults));
  row("stalled",
      fmt::format("{} of {} ({:.1f} %)", format_seconds(stall_seconds(account)), time, stall_share(account) * 100));
  wait_rows(account.waits, row);
  if (const std::string advice = block_advice(account); !advice.empty()) row("smaller blocks", advice);
  if (account.on_device) {
    row("changes of mappings", fmt::format("{}, for which launches waited {}", stats.mappings,
                                           format_seconds(static_cast<double>(stats.mapping_ns) / 1e9)));
    row("waits for the GPU", fmt::format("{} of {} in all", stats.device_waits,
                                         format_seconds(static_cast<double>(stats.device_wait_ns) / 1e9)));
  }
  row("steps", steps_text(account));
  if (const double bps = steps_read_bps(account); bps >= kReadBpsMin) row("read during steps", disk_text(account, bps));
  if (stats.guided > 0) row("launches by the guide", std::to_string(stats.guided));
  if (stats.io_errors > 0) row("transfers retried", std::to_string(stats.io_errors));
  if (stats.corrupt_blocks > 0) row("corrupt blocks", std::to_string(stats.corrupt_blocks));
  for (const Rank& rank : account.ranks) row(fmt::format("rank {}", rank.number).c_str(), rank_text(rank));
  if (account.job) job_rows(account, row);
  if (account.others > 0) {
    row("outside the budget",
        fmt::format("{} other process{} that imported torch", account.others, account.others == 1 ? "" : "es"));
  }
  row("exit code", exit_text(account.outcome));
  return table;
}

void SummaryFile::refuse(Status status, const char* reason) const {
  throw Error(status, fmt::format("{} file '{}' cannot be written: {}; name another with {} FILE", what_, path_, reason,
                                  option_));
}

SummaryFile::SummaryFile(const std::string& path, const char* what, const char* option)
    : path_(path), what_(what), option_(option), target_(path) {
  if (path.empty()) refuse(Status::kInvalid, "the name is empty");
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) refuse(Status::kInvalid, "it is a directory");
    if (::access(path.c_str(), W_OK) != 0) refuse(Status::kInvalid, std::strerror(errno));
    // What hides behind /dev/stdout may be the file that the program's own output goes to.
    const bool stands_for_another = path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0;
    replaces_ = S_ISREG(info.st_mode) && !stands_for_another;
  } else if (errno != ENOENT) {
    refuse(Status::kInvalid, std::strerror(errno));
  }
  if (!replaces_) return;
  std::error_code failed;
  const auto real = std::filesystem::weakly_canonical(path, failed);
  if (failed) refuse(Status::kInvalid, failed.message().c_str());
  target_ = real.string();
  std::string trial = temporary_template(target_);
  const FileDescriptor file(::mkostemp(trial.data(), O_CLOEXEC));
  if (!file.valid()) refuse(Status::kInvalid, std::strerror(errno));
  ::unlink(trial.c_str());
}

void SummaryFile::write(const std::string& text) const {
  if (!replaces_) {
    const FileDescriptor file(::open(target_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file.valid() || !write_all(file.get(), text)) refuse(Status::kIoError, std::strerror(errno));
    return;
  }
  std::string temporary = temporary_template(target_);
  const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) refuse(Status::kIoError, std::strerror(errno));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool written = write_all(file.get(), text) && ::fchmod(file.get(), 0666 & ~mask) == 0 &&
                       ::fsync(file.get()) == 0 && std::rename(temporary.c_str(), target_.c_str()) == 0;
  if (written) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  refuse(Status::kIoError, std::strerror(error));
}

}  // namespace ebb::cli
