// See process_watch.h.
#include "run/job/process_watch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "drivers/linux/system/system_files.h"
#include "run/program_file.h"

namespace ebb::cli {
namespace {

constexpr std::uint64_t kOwnBytesMin = std::uint64_t{64} << 20;  // less is not worth a word
// Importing torch takes seconds of a core, on a busy machine minutes by the clock, and only then a process joins: looks
// at one that would run count for nothing.
constexpr std::uint64_t kSecondsOfTorch = 10;
constexpr int kLooksOfTorch = 60;
constexpr int kLooksOfFork = 2;

// Empty: it has ended, or is not ours to look at.
std::string read(pid_t pid, const char* what) {
  return read_text("/proc/" + std::to_string(pid) + "/" + what).value_or("");
}

// When it was started, and where its stack begins: the same in a process and in what it forks; and what it has computed
// since. Nothing: it has ended.
struct Life {
  std::uint64_t started = 0;
  std::uint64_t stack = 0;
  std::uint64_t ticks = 0;  // on a core
  bool sleeps = false;      // waits for something, and neither for a core nor for the disk
};
std::optional<Life> life_of(pid_t pid) {
  constexpr int kUserTicks = 14;
  constexpr int kSystemTicks = 15;
  constexpr int kStarted = 22;
  constexpr int kStack = 28;
  const std::string stat = read(pid, "stat");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(stat.substr(name_end + 1));
  Life life;
  std::string word;
  for (int field = 3; field <= kStack && rest >> word; ++field) {
    if (field == 3 && word == "Z") return std::nullopt;
    if (field == 3) life.sleeps = word == "S";
    std::uint64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    if (field == kUserTicks || field == kSystemTicks) life.ticks += value;
    if (field == kStarted) life.started = value;
    if (field == kStack) life.stack = value;
  }
  return life;
}

std::uint64_t own_bytes(pid_t pid) {
  std::istringstream lines(read(pid, "status"));
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("RssAnon:", 0) != 0) continue;
    const std::size_t digits = std::min(line.find_first_of("0123456789"), line.size());
    std::from_chars(line.data() + digits, line.data() + line.size(), bytes);
  }
  return bytes << 10;
}

// Whether Python was told to start without what PYTHONPATH names.
bool skips_hook(pid_t pid) {
  std::istringstream words(read(pid, "cmdline"));
  std::string word;
  std::getline(words, word, '\0');
  if (std::filesystem::path(word).filename().string().rfind("python", 0) != 0) return false;
  while (std::getline(words, word, '\0') && word.size() > 1 && word[0] == '-' && word[1] != '-') {
    if (word.find_first_of("IES") != std::string::npos) return true;
    if (word.find_first_of("cm") != std::string::npos) break;
  }
  return false;
}

}  // namespace

std::string process_name(pid_t pid) { return read_line("/proc/" + std::to_string(pid) + "/comm").value_or(""); }

ProcessWatch::Known& ProcessWatch::know(pid_t pid, std::uint64_t started) {
  Known& known = known_[pid];
  if (known.started == started) return known;
  known = {started, false, false, 0, 0};
  const std::string environment = read(pid, "environ");
  const std::size_t at = environment.find(mark_);
  known.ours = at != std::string::npos && (at == 0 || environment[at - 1] == '\0');
  return known;
}

std::vector<Outsider> ProcessWatch::look(const std::vector<pid_t>& members) {
  std::vector<Outsider> news;
  std::vector<std::uint64_t> stacks;
  for (const pid_t pid : members) {
    if (const auto life = life_of(pid)) stacks.push_back(life->stack);
  }
  std::map<pid_t, Known> alive;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const char* const end = name.data() + name.size();
    struct stat status {};
    if (std::from_chars(name.data(), end, pid).ptr != end || ::stat(entry.path().c_str(), &status) != 0) continue;
    const auto life = status.st_uid == ::geteuid() && pid != ::getpid() ? life_of(pid) : std::nullopt;
    if (!life) continue;
    Known& known = know(pid, life->started);
    if (std::find(members.begin(), members.end(), pid) != members.end()) {
      found_.erase(pid);  // it has joined after all
    } else if (known.ours) {
      const bool forked = std::find(stacks.begin(), stacks.end(), life->stack) != stacks.end();
      judge(pid, known, {forked, life->sleeps, life->ticks}, news);
    }
    alive[pid] = known;
  }
  known_ = std::move(alive);
  return news;
}

void ProcessWatch::judge(pid_t pid, Known& known, const Seen& seen, std::vector<Outsider>& news) {
  const std::uint64_t own = own_bytes(pid);
  if (const auto found = found_.find(pid); found != found_.end()) {
    found->second.own_bytes = std::max(found->second.own_bytes, own);
    return;
  }
  if (own < kOwnBytesMin) return;
  Outsider outsider{pid, process_name(pid), {}, seen.forked, own};
  if (outsider.forked) {
    if (++known.looks >= kLooksOfFork) outsider.why = "forked from a process of the job: what it changes is its own";
  } else if (read(pid, "maps").find("libtorch_cpu") != std::string::npos) {
    if (!known.torch) known.ticks = seen.ticks;
    known.torch = true;
    if (seen.sleeps) ++known.looks;
    const std::uint64_t limit = kSecondsOfTorch * static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    if (skips_hook(pid)) {
      outsider.why = "its Python was started with -I, -E or -S, which skips Ebbtide's hook";
    } else if (seen.ticks - known.ticks >= limit || known.looks >= kLooksOfTorch) {
      outsider.why = "it uses torch, and its Python has not run Ebbtide's hook";
    }
  } else {
    outsider.why = why_not_loaded("/proc/" + std::to_string(pid) + "/exe");
  }
  if (outsider.why.empty()) return;
  found_[pid] = outsider;
  news.push_back(outsider);
}

}  // namespace ebb::cli
