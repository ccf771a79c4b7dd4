// What runs do, as lines of text. Pure functions, but for the time of day.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "top/activity.h"

namespace ebb::cli {

struct Line {
  enum class Look { kPlain, kTitle, kHead, kSelected, kFaint };
  std::string text;
  Look look = Look::kPlain;
};

// The columns of the table of processes, in their order.
enum class Column {
  kPid,
  kRun,
  kRank,
  kMemory,
  kBudget,
  kFlash,
  kFetch,
  kEvict,
  kStalled,
  kStep,
  kTakes,
  kWhy,
  kProcess,
};
inline constexpr std::size_t kColumns = 13;

struct SortOrder {
  Column column = Column::kPid;
  bool inverted = false;  // numbers of processes and runs begin with the least, all others with the most
};

// "PID"; as the head of the table and the help name it.
const char* title(Column column);

double elapsed_seconds(const RunFacts& facts);

// Two lines: who it is, and what all of its processes do together.
std::vector<Line> run_lines(const RunActivity& run);

// Of all runs.
std::vector<ProcessActivity> sorted(const Activity& activity, SortOrder order);

// The head first; then a line for each. No line is longer than `columns`: what is less important is left out.
std::vector<Line> process_lines(const std::vector<ProcessActivity>& processes, SortOrder order, std::size_t columns);

// Whom and what for one has waited since it began.
std::vector<Line> wait_lines(const ProcessActivity& process);

// All of it: what is printed where there is no terminal to draw on.
std::vector<Line> report_lines(const Activity& activity);

// In columns: every character is taken to have the width of one.
std::size_t width_of(const std::string& text);

// Without control characters, which could do something to a terminal, and cut off after so many columns.
std::string fit(const std::string& text, std::size_t columns);

}  // namespace ebb::cli
