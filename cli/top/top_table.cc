// See top_table.h.
#include "top/top_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "ebb/units.h"
#include "run/wait_account.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kBar = 20;
constexpr std::size_t kNameLeast = 8;
constexpr double kShownShare = 0.005;  // less is 0 %

struct ColumnFacts {
  const char* title;
  std::size_t width;
  int importance;  // of those that there is no room for, the least goes first
  bool ascending;
};
constexpr std::array<ColumnFacts, kColumns> kFacts{{{"PID", 7, 12, true},
                                                    {"RUN", 7, 5, true},
                                                    {"RANK", 4, 6, true},
                                                    {"MEMORY", 8, 11, false},
                                                    {"BUDGET", 8, 4, false},
                                                    {"FLASH", 8, 7, false},
                                                    {"FETCH", 9, 9, false},
                                                    {"EVICT", 9, 8, false},
                                                    {"STALLED", 7, 10, false},
                                                    {"STEP", 6, 2, false},
                                                    {"TAKES", 7, 3, false},
                                                    {"WHY", 10, 1, true},
                                                    {"PROCESS", kNameLeast, 13, true}}};

const ColumnFacts& facts_of(Column column) { return kFacts[static_cast<std::size_t>(column)]; }

bool leads(unsigned char byte) { return (byte & 0xC0) != 0x80; }

std::string padded(const std::string& text, std::size_t width, bool to_the_left) {
  const std::size_t room = width - std::min(width, width_of(text));
  return to_the_left ? text + std::string(room, ' ') : std::string(room, ' ') + text;
}

std::string rate_text(double bps) { return fmt::format("{:.0f} MB/s", bps / 1e6); }
std::string share_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

const char* why(const Rates& rates) {
  const auto most = std::max_element(rates.causes.begin(), rates.causes.end());
  return *most < kShownShare ? "" : kWaitCauseNames[static_cast<std::size_t>(most - rates.causes.begin())];
}

std::string cell(const ProcessActivity& activity, Column column) {
  const ProcessReading& process = *activity.process;
  const Stats& stats = process.reading.stats;
  const auto& steps = process.reading.recent_step_seconds;
  switch (column) {
    case Column::kPid: return std::to_string(process.pid);
    case Column::kRun: return std::to_string(activity.run);
    case Column::kRank: return process.rank < 0 ? "" : std::to_string(process.rank);
    case Column::kMemory: return format_size(stats.resident_bytes);
    case Column::kBudget: return format_size(stats.budget_bytes);
    case Column::kFlash: return format_size(stats.flash_bytes);
    case Column::kFetch: return rate_text(activity.rates.fetch_bps);
    case Column::kEvict: return rate_text(activity.rates.evict_bps);
    case Column::kStalled: return share_text(activity.rates.stalled);
    case Column::kStep: return std::to_string(process.reading.step_count);
    case Column::kTakes: return steps.empty() ? "" : format_seconds(steps.back());
    case Column::kWhy: return why(activity.rates);
    case Column::kProcess: return process.name;
  }
  return "";
}

// What numbers are sorted by; words are by themselves.
double number(const ProcessActivity& activity, Column column) {
  const ProcessReading& process = *activity.process;
  const Stats& stats = process.reading.stats;
  switch (column) {
    case Column::kPid: return process.pid;
    case Column::kRun: return activity.run;
    case Column::kRank: return static_cast<double>(process.rank);
    case Column::kMemory: return static_cast<double>(stats.resident_bytes);
    case Column::kBudget: return static_cast<double>(stats.budget_bytes);
    case Column::kFlash: return static_cast<double>(stats.flash_bytes);
    case Column::kFetch: return activity.rates.fetch_bps;
    case Column::kEvict: return activity.rates.evict_bps;
    case Column::kStalled: return activity.rates.stalled;
    case Column::kStep: return static_cast<double>(process.reading.step_count);
    case Column::kTakes:
      return process.reading.recent_step_seconds.empty() ? 0 : process.reading.recent_step_seconds.back();
    default: return 0;
  }
}

bool in_front(const ProcessActivity& a, const ProcessActivity& b, SortOrder order) {
  const bool ascending = facts_of(order.column).ascending != order.inverted;
  const auto by = std::pair(number(a, order.column), order.column >= Column::kWhy ? cell(a, order.column) : "");
  const auto than = std::pair(number(b, order.column), order.column >= Column::kWhy ? cell(b, order.column) : "");
  return ascending ? by < than : than < by;
}

// In the order of the table. The name of the process comes last and takes what is left.
std::vector<Column> columns_that_fit(const std::vector<ProcessActivity>& processes, std::size_t columns) {
  std::vector<Column> candidates;
  const auto differs = [&](Column column) {
    return std::any_of(processes.begin(), processes.end(), [&](const ProcessActivity& each) {
      return cell(each, column) != cell(processes.front(), column) ||
             (column == Column::kRank && number(each, column) >= 0);
    });
  };
  for (std::size_t i = 0; i < kColumns; ++i) {
    const auto column = static_cast<Column>(i);
    if ((column != Column::kRun && column != Column::kRank) || differs(column)) candidates.push_back(column);
  }
  std::vector<Column> chosen = candidates;
  std::sort(candidates.begin(), candidates.end(),
            [](Column a, Column b) { return facts_of(a).importance < facts_of(b).importance; });
  const auto width = [&] {
    std::size_t sum = 0;
    for (const Column column : chosen) sum += facts_of(column).width + 1;
    return sum;
  };
  for (const Column column : candidates) {
    if (width() <= columns || chosen.size() <= 2) break;
    std::erase(chosen, column);
  }
  return chosen;
}

std::string row_of(const std::vector<Column>& chosen, const std::function<std::string(Column)>& text) {
  std::string row;
  for (const Column column : chosen) {
    if (!row.empty()) row += " ";
    row += padded(text(column), facts_of(column).width, column >= Column::kWhy);
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

}  // namespace

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return leads(c); }));
}

const char* title(Column column) { return facts_of(column).title; }

double elapsed_seconds(const RunFacts& facts) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::max(0.0, std::chrono::duration<double>(now).count() - facts.started);
}

std::vector<Line> run_lines(const RunActivity& run) {
  const RunFacts& facts = run.run->facts;
  const auto seconds = static_cast<std::int64_t>(std::min(elapsed_seconds(facts), 1e12));
  const double full =
      facts.budget_bytes > 0 ? static_cast<double>(run.resident_bytes) / static_cast<double>(facts.budget_bytes) : 0;
  const auto bars = std::min(kBar, static_cast<std::size_t>(std::min(full, 1.0) * kBar + 0.5));
  const MemoryLoad load{run.resident_bytes,  facts.budget_bytes,  run.flash_bytes,
                        run.rates.fetch_bps, run.rates.evict_bps, run.rates.stalled,
                        facts.disk_read_bps, facts.on_device,     facts.automatic};
  std::vector<Line> lines;
  lines.push_back({fmt::format("run {}  {}  {}", facts.pid, format_clock(seconds), fmt::join(facts.command, " ")),
                   Line::Look::kTitle});
  lines.push_back({fmt::format("  [{}{}] {}", std::string(bars, '|'), std::string(kBar - bars, ' '),
                               fmt::join(load_parts(load), "  ")),
                   Line::Look::kPlain});
  if (run.processes.empty()) lines.push_back({"  no process of it has memory yet", Line::Look::kFaint});
  return lines;
}

std::vector<ProcessActivity> sorted(const Activity& activity, SortOrder order) {
  std::vector<ProcessActivity> processes;
  for (const RunActivity& run : activity.runs) {
    processes.insert(processes.end(), run.processes.begin(), run.processes.end());
  }
  std::stable_sort(processes.begin(), processes.end(),
                   [order](const ProcessActivity& a, const ProcessActivity& b) { return in_front(a, b, order); });
  return processes;
}

std::vector<Line> process_lines(const std::vector<ProcessActivity>& processes, SortOrder order, std::size_t columns) {
  if (processes.empty()) return {};
  const std::vector<Column> chosen = columns_that_fit(processes, columns);
  const auto head = [&](Column column) {
    const bool falling = facts_of(column).ascending == order.inverted;
    return column == order.column ? std::string(title(column)) + (falling ? "-" : "+") : title(column);
  };
  std::vector<Line> lines{{row_of(chosen, head), Line::Look::kHead}};
  for (const ProcessActivity& process : processes) {
    lines.push_back({row_of(chosen, [&](Column column) { return cell(process, column); }), Line::Look::kPlain});
  }
  for (Line& line : lines) line.text = fit(line.text, columns);
  return lines;
}

std::vector<Line> wait_lines(const ProcessActivity& process) {
  const WaitReport& waits = process.process->reading.waits;
  std::vector<Line> lines{
      {fmt::format("process {} {}: waited {} since it began", process.process->pid, process.process->name,
                   format_seconds(static_cast<double>(waits.total_ns) / 1e9)),
       Line::Look::kTitle}};
  wait_rows(waits, [&](const char* label, const std::string& value) {
    lines.push_back({fmt::format("{:<16}{}", label, value), Line::Look::kPlain});
  });
  return lines;
}

std::vector<Line> report_lines(const Activity& activity) {
  if (activity.runs.empty()) return {{"no program of yours runs under `ebb run`", Line::Look::kPlain}};
  std::vector<Line> lines;
  for (const RunActivity& run : activity.runs) {
    for (Line& line : run_lines(run)) lines.push_back(std::move(line));
  }
  const SortOrder order;
  for (Line& line : process_lines(sorted(activity, order), order, std::numeric_limits<std::size_t>::max())) {
    lines.push_back(std::move(line));
  }
  for (Line& line : lines) line.text = fit(line.text, std::numeric_limits<std::size_t>::max());
  return lines;
}

std::string fit(const std::string& text, std::size_t columns) {
  std::string line;
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    // C0, DEL, and C1, which in UTF-8 is C2 followed by 80 to 9F.
    const bool control = byte < 0x20 || byte == 0x7F || (byte == 0xC2 && next >= 0x80 && next < 0xA0);
    if (leads(byte) && ++used > columns) break;
    const bool space = byte == '\n' || byte == '\t';
    line += space ? ' ' : control ? '?' : text[i];
    if (control && byte == 0xC2) ++i;
  }
  return line;
}

}  // namespace ebb::cli
