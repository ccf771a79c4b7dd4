// How the commands write for people. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::cli {

// "1.23 ms", "45.6 s", "7890 s": three significant digits, and never an exponent.
std::string format_seconds(double seconds);
std::string format_nanoseconds(std::uint64_t ns);

double seconds_of(std::uint64_t ns);

// Whether to colour what goes to `fd`: a terminal, and the user did not set NO_COLOR.
bool wants_colour(int fd);

// Whether `fd` is a terminal that understands control sequences.
bool draws(int fd);

// "3:07": minutes and seconds.
std::string format_clock(std::int64_t seconds);

// What memory is doing, of one process or of several together.
struct MemoryLoad {
  std::uint64_t resident_bytes = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t flash_bytes = 0;
  double fetch_bps = 0;
  double evict_bps = 0;
  double stalled = 0;        // share of the time
  double disk_read_bps = 0;  // of what the disk can; 0: not known, or not what is fetched from
  bool on_device = false;    // memory is a GPU's
  bool automatic = false;    // the budget follows what the machine has
};

// "846 MiB / 846 MiB", "flash 1.2 GiB", "fetch 900 MB/s (41 % of disk)" and so on, most important first.
std::vector<std::string> load_parts(const MemoryLoad& load);

// What is being done, in one line of a terminal on standard error that is gone at the end; nothing elsewhere. It is
// silent until a person begins to wonder, and then draws no more often than it may.
class ProgressLine {
 public:
  using Time = std::chrono::milliseconds;
  explicit ProgressLine(Time silence, Time every = {});
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::string_view text);
  void clear();

 private:
  const Time every_;
  const bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace ebb::cli
