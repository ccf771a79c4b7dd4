// See text.h.
#include "text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "drivers/linux/system/system_files.h"
#include "ebb/units.h"

namespace ebb::cli {

std::string format_seconds(double seconds) {
  const bool short_time = seconds < 0.9995;
  const double value = short_time ? seconds * 1e3 : seconds;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, short_time ? "ms" : "s");
}

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string format_nanoseconds(std::uint64_t ns) { return format_seconds(seconds_of(ns)); }

bool wants_colour(int fd) {
  const char* refused = std::getenv("NO_COLOR");
  const bool allowed = refused == nullptr || *refused == '\0';
  return allowed && ::isatty(fd) == 1;
}

bool draws(int fd) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(fd) == 1 && terminal != nullptr && *terminal != '\0' && std::string_view(terminal) != "dumb";
}

std::string format_clock(std::int64_t seconds) { return fmt::format("{}:{:02}", seconds / 60, seconds % 60); }

std::vector<std::string> load_parts(const MemoryLoad& load) {
  const std::string share =
      load.disk_read_bps > 0 ? fmt::format(" ({:.0f} % of disk)", 100 * load.fetch_bps / load.disk_read_bps) : "";
  return {fmt::format("{}{} / {}{}", load.on_device ? "GPU " : "", format_size(load.resident_bytes),
                      format_size(load.budget_bytes), load.automatic ? " auto" : ""),
          fmt::format("flash {}", format_size(load.flash_bytes)),
          fmt::format("fetch {:.0f} MB/s{}", load.fetch_bps / 1e6, share),
          fmt::format("evict {:.0f} MB/s", load.evict_bps / 1e6), fmt::format("stalled {:.0f} %", 100 * load.stalled)};
}

ProgressLine::ProgressLine(Time silence, Time every)
    : every_(every), terminal_(::isatty(STDERR_FILENO) == 1), next_(std::chrono::steady_clock::now() + silence) {}

void ProgressLine::show(std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + every_;
  drawn_ = true;
  write_all(STDERR_FILENO, fmt::format("\r\033[K{}", text));
}

void ProgressLine::clear() {
  if (drawn_) write_all(STDERR_FILENO, "\r\033[K");
  drawn_ = false;
}

}  // namespace ebb::cli
