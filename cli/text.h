// How the commands write for people. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace ebb::cli {

// "1.23 ms", "45.6 s", "7890 s": three significant digits, and never an exponent.
std::string format_seconds(double seconds);

// Whether to colour what goes to `fd`: a terminal, and the user did not set NO_COLOR.
bool wants_colour(int fd);

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
