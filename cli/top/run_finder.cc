// See run_finder.h. A run's directory is reached through /proc/GUARD/fd: wherever $TMPDIR of that run pointed, and with
// no path that somebody else could put something under.
#include "top/run_finder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "drivers/linux/system/system_files.h"
#include "ebb/stats_page.h"
#include "numbers.h"
#include "run/job/process_watch.h"
#include "run/job/ranks.h"
#include "run/scratch_directory.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kNoticeMax = 64 * 1024;

struct Closer {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::vector<std::string> names_in(FileDescriptor directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Closer> stream(::fdopendir(directory.get()));
  if (stream == nullptr) return names;
  directory.release();
  while (const dirent* const entry = ::readdir(stream.get())) names.emplace_back(entry->d_name);
  return names;
}

bool is_ours(const struct stat& status) { return status.st_uid == ::geteuid(); }

bool lives(pid_t pid) {
  struct stat status {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && is_ours(status);
}

// Invalid where this is no directory that only we may use.
FileDescriptor open_directory(pid_t guard) {
  const std::string path = fmt::format("/proc/{}/fd/{}", guard, ScratchDirectory::kGuardedDirectory);
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  const bool is_private = directory.valid() && ::fstat(directory.get(), &status) == 0 && is_ours(status) &&
                          (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  if (!is_private) directory.reset();
  return directory;
}

// Invalid where there is no plain file of ours of such a size.
FileDescriptor open_own(const FileDescriptor& directory, const std::string& name, std::size_t least, std::size_t most) {
  // Not waiting, should it be a pipe.
  FileDescriptor file(::openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  const bool good = file.valid() && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && is_ours(status) &&
                    static_cast<std::size_t>(status.st_size) >= least &&
                    static_cast<std::size_t>(status.st_size) <= most;
  if (!good) file.reset();
  return file;
}

std::string read_own(const FileDescriptor& directory, const std::string& name) {
  const FileDescriptor file = open_own(directory, name, 1, kNoticeMax);
  std::string text(kNoticeMax, '\0');
  const ssize_t bytes = file.valid() ? ::pread(file.get(), text.data(), text.size(), 0) : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  return text;
}

std::optional<ProcessReading> read_process(const FileDescriptor& directory, const std::string& name) {
  const std::string page = kStatsPage;
  const std::optional<std::uint32_t> rank = number_after(page + kRankPage, name);
  if (name != page && !rank && !number_after(page + kProcessPage, name)) return std::nullopt;
  const FileDescriptor file = open_own(directory, name, sizeof(StatsPage), sizeof(StatsPage));
  std::optional<StatsReading> reading = file.valid() ? read_stats(file) : std::nullopt;
  if (!reading) return std::nullopt;
  ProcessReading process;
  process.pid = static_cast<pid_t>(reading->process);
  if (process.pid <= 0 || !lives(process.pid)) return std::nullopt;
  if (rank) process.rank = *rank;
  process.name = process_name(process.pid);
  process.reading = std::move(*reading);
  return process;
}

std::optional<RunReading> read_run(pid_t guard) {
  const FileDescriptor directory = open_directory(guard);
  if (!directory.valid()) return std::nullopt;
  const std::string name = RunNotice::kName;
  auto facts = parse_run_notice(read_own(directory, name), read_own(directory, name + RunNotice::kBudgetSuffix));
  if (!facts) return std::nullopt;
  RunReading run{std::move(*facts), {}};
  for (const std::string& page : names_in(FileDescriptor(::dup(directory.get())))) {
    if (auto process = read_process(directory, page)) run.processes.push_back(std::move(*process));
  }
  std::sort(run.processes.begin(), run.processes.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return run;
}

}  // namespace

Readings read_runs() {
  Readings readings;
  readings.when = std::chrono::steady_clock::now();
  FileDescriptor processes(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string& name : names_in(std::move(processes))) {
    const std::optional<std::uint32_t> number = number_after("", name);
    if (!number) continue;
    const auto pid = static_cast<pid_t>(*number);
    if (!lives(pid) || process_name(pid) != ScratchDirectory::kGuardName) continue;
    if (auto run = read_run(pid)) readings.runs.push_back(std::move(*run));
  }
  std::sort(readings.runs.begin(), readings.runs.end(),
            [](const auto& a, const auto& b) { return a.facts.pid < b.facts.pid; });
  return readings;
}

}  // namespace ebb::cli
