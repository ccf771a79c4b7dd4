// See status_line.h. Control sequences used: IND (ESC D) makes room below the cursor without losing its column; DECSC
// and DECRC (ESC 7, ESC 8) keep the program's cursor, which DECSTBM would send home; each update is a single write, so
// that it interleaves with the program's output only as a whole.
#include "run/status_line.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "drivers/linux/system/system_files.h"
#include "ebb/units.h"
#include "run/job/ranks.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr int kRowsMin = 4;
constexpr int kColumnsMin = 20;
constexpr std::size_t kSamplesMax = kTicksPerSecond + 1;
constexpr const char* kSeparator = "  ";

double seconds_between(const StatusSample& from, const StatusSample& to) {
  return std::chrono::duration<double>(to.when - from.when).count();
}

}  // namespace

std::vector<std::string> status_parts(const StatsReading& reading, const StatusSample& from, const StatusSample& to,
                                      const StatusContext& context) {
  const double seconds = seconds_between(from, to);
  const auto rate = [&](std::uint64_t before, std::uint64_t after) {
    return seconds > 0 && after > before ? static_cast<double>(after - before) / seconds : 0.0;
  };
  const Stats& now = to.stats;
  MemoryLoad load;
  load.resident_bytes = now.resident_bytes;
  load.budget_bytes = now.budget_bytes;
  load.flash_bytes = now.flash_bytes;
  load.fetch_bps = rate(from.stats.fetched_bytes, now.fetched_bytes);
  load.evict_bps = rate(from.stats.evicted_bytes, now.evicted_bytes);
  load.stalled = std::min(1.0, rate(from.stats.stall_ns, now.stall_ns) / 1e9);
  load.disk_read_bps = context.disk_read_bps;
  load.on_device = context.on_device;
  load.automatic = context.job != nullptr && context.job->automatic();
  std::vector<std::string> parts = load_parts(load);
  if (reading.step_count > 0) {
    parts.push_back(fmt::format("{}step {}", now.steps == 0 ? "found " : "", reading.step_count));
    parts.push_back(format_seconds(reading.recent_step_seconds.back()));
    parts.push_back(fmt::format("median {}", format_seconds(median(reading.recent_step_seconds))));
  }
  return parts;
}

StatusLine::StatusLine(int fd, std::string stats_path, const StatusContext& context)
    : fd_(fd),
      stats_path_(std::move(stats_path)),
      context_(context),
      colour_(wants_colour(fd)),
      start_(std::chrono::steady_clock::now()) {}

StatusLine::~StatusLine() { restore(); }

void StatusLine::tick() {
  if (!in_foreground()) return;
  if (!reserved_) reserve();
  if (reserved_) draw();
}

void StatusLine::resized() {
  if (!reserved_) return;
  restore();
  tick();
}

void StatusLine::suspended() { restore(); }

void StatusLine::resumed() {
  restore();  // a stop that could not be caught left the region behind, and the shell may have undone it
  tick();
}

void StatusLine::reserve() {
  winsize size{};
  if (::ioctl(fd_, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_row < kRowsMin || size.ws_col < kColumnsMin) return;
  rows_ = size.ws_row;
  columns_ = size.ws_col;
  send(fmt::format("\033D\0337\033[1;{}r\0338\033[1A", rows_ - 1));
  reserved_ = true;
}

void StatusLine::restore() {
  if (!reserved_) return;
  reserved_ = false;
  winsize size{};
  // After the window shrank, the old last row is out of reach: the line was moved up or cut off by the terminal.
  const bool known = ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  const int row = known ? std::min<int>(rows_, size.ws_row) : rows_;
  send(fmt::format("\0337\033[r\033[{};1H\033[2K\0338", row));
}

void StatusLine::draw() {
  // A terminal stopped with Ctrl-S takes nothing; waiting for it would delay signals to the program.
  pollfd terminal{fd_, POLLOUT, 0};
  if (::poll(&terminal, 1, 0) != 1) return;
  const std::string text = compose();
  const char* on = colour_ ? "\033[7m" : "";
  const char* off = colour_ ? "\033[0m" : "";
  send(fmt::format("\0337\033[{};1H{}{}\033[K{}\0338", rows_, on, text, off));
}

std::string StatusLine::compose() {
  const auto now = std::chrono::steady_clock::now();
  std::size_t processes = 0;
  auto reading = read_job(stats_path_, false, &processes);
  std::vector<std::string> parts;
  if (reading) {
    if (context_.job != nullptr && processes > 1) reading->stats.budget_bytes = context_.job->budget_bytes();
    samples_.push_back(StatusSample{now, reading->stats});
    if (samples_.size() > kSamplesMax) samples_.pop_front();
    parts = status_parts(*reading, samples_.front(), samples_.back(), context_);
  } else {
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - start_);
    parts.push_back(fmt::format("waiting for torch  {}", format_clock(waited.count())));
  }
  std::string line = " ebb";
  for (const std::string& part : parts) {
    // The last column stays free: writing it would leave some terminals about to wrap.
    if (line.size() + 2 + part.size() + 1 > static_cast<std::size_t>(columns_)) break;
    line += kSeparator + part;
  }
  return line;
}

bool StatusLine::in_foreground() const {
  const pid_t group = ::tcgetpgrp(fd_);
  return group < 0 || group == ::getpgrp();  // without job control there is no background
}

void StatusLine::send(const std::string& sequence) const { write_all(fd_, sequence); }

}  // namespace ebb::cli
