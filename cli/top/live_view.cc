// See live_view.h.
#include "top/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

namespace ebb::cli {
namespace {

constexpr std::size_t kRowsOfWaits = 12;

struct SortKey {
  char character;
  Column column;
};
constexpr SortKey kSortKeys[] = {{'N', Column::kPid},     {'M', Column::kMemory}, {'B', Column::kBudget},
                                 {'F', Column::kFlash},   {'R', Column::kFetch},  {'W', Column::kEvict},
                                 {'S', Column::kStalled}, {'T', Column::kTakes},  {'C', Column::kProcess}};

std::vector<Line> help_lines() {
  std::vector<Line> lines{{"ebb top: keys", Line::Look::kTitle}, {}};
  const auto add = [&](const char* keys, const std::string& what) {
    lines.push_back({fmt::format("  {:<22}{}", keys, what), Line::Look::kPlain});
  };
  add("q F10 Ctrl-C", "end");
  add("h ? F1", "this help; any key leaves it");
  add("up down j k", "choose a process: what it waited for is below");
  add("PgUp PgDn Home End", "the same, further");
  add("left right < >", "sort by the next column");
  for (const auto& [character, column] : kSortKeys) {
    add(std::string(1, character).c_str(), fmt::format("sort by {}", title(column)));
  }
  add("I", "the other way round");
  lines.push_back({});
  lines.push_back({"STALLED: share of the time in which a thread waited for memory; WHY: the most frequent cause",
                   Line::Look::kFaint});
  return lines;
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

bool LiveView::press(const Key& key) {
  using Name = Key::Name;
  const char c = key.name == Name::kCharacter ? key.character : '\0';
  if (key.name == Name::kQuit || c == 'q' || c == 'Q' || c == '\x03') return false;
  if (help_) {
    help_ = false;
    return true;
  }
  const auto page = static_cast<std::ptrdiff_t>(page_);
  const auto all = static_cast<std::ptrdiff_t>(shown_.size());
  const auto at = static_cast<std::size_t>(order_.column);
  if (key.name == Name::kHelp || c == 'h' || c == '?') help_ = true;
  if (key.name == Name::kUp || c == 'k') select(-1);
  if (key.name == Name::kDown || c == 'j') select(1);
  if (key.name == Name::kPageUp) select(-page);
  if (key.name == Name::kPageDown) select(page);
  if (key.name == Name::kHome) select(-all);
  if (key.name == Name::kEnd) select(all);
  if (key.name == Name::kLeft || c == '<') sort_by(static_cast<Column>((at + kColumns - 1) % kColumns));
  if (key.name == Name::kRight || c == '>') sort_by(static_cast<Column>((at + 1) % kColumns));
  if (c == 'I') order_.inverted = !order_.inverted;
  for (const auto& [character, column] : kSortKeys) {
    if (c == character) sort_by(column);
  }
  return true;
}

void LiveView::sort_by(Column column) { order_ = {column, false}; }

void LiveView::select(std::ptrdiff_t by) {
  if (shown_.empty()) return;
  const auto at = std::find(shown_.begin(), shown_.end(), selected_) - shown_.begin();
  const auto last = static_cast<std::ptrdiff_t>(shown_.size()) - 1;
  selected_ = shown_[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at + by, 0, last))];
}

void LiveView::add_runs(const Activity& activity, std::size_t most, std::vector<Line>& lines) const {
  std::size_t left = activity.runs.size();
  const std::size_t end = lines.size() + most;
  for (const RunActivity& run : activity.runs) {
    std::vector<Line> two = run_lines(run);
    if (lines.size() + two.size() + (left > 1 ? 1 : 0) > end && left < activity.runs.size()) break;
    std::move(two.begin(), two.end(), std::back_inserter(lines));
    --left;
  }
  if (left > 0) lines.push_back({fmt::format("  and {}", counted(left, "more run", "more runs")), Line::Look::kFaint});
}

// Those around the selected one, as far as there is room.
void LiveView::add_processes(std::vector<Line> processes, std::size_t most, std::vector<Line>& lines) {
  page_ = std::max<std::size_t>(1, most - std::min<std::size_t>(most, 1));
  if (processes.empty()) return;
  lines.push_back(std::move(processes.front()));
  const auto at = static_cast<std::size_t>(std::find(shown_.begin(), shown_.end(), selected_) - shown_.begin());
  first_ = std::clamp(first_, at + 1 - std::min(at + 1, page_), at);
  for (std::size_t i = first_; i < std::min(shown_.size(), first_ + page_); ++i) {
    Line& line = processes[i + 1];
    if (i == at) line.look = Line::Look::kSelected;
    lines.push_back(std::move(line));
  }
}

std::vector<Line> LiveView::compose(const Activity& activity, std::size_t rows, std::size_t columns) {
  const std::vector<ProcessActivity> processes = sorted(activity, order_);
  shown_.clear();
  for (const ProcessActivity& each : processes) shown_.push_back(each.process->pid);
  if (!shown_.empty() && std::find(shown_.begin(), shown_.end(), selected_) == shown_.end()) {
    selected_ = shown_.front();
  }
  if (help_) return help_lines();
  std::vector<Line> lines;
  lines.push_back(
      {fmt::format("ebb top  {}, {}  every {:g} s  q: end  h: help", counted(activity.runs.size(), "run", "runs"),
                   counted(shown_.size(), "process", "processes"), interval_seconds_),
       Line::Look::kFaint});
  if (activity.runs.empty()) {
    lines.push_back({"no program of yours runs under `ebb run`", Line::Look::kPlain});
    return lines;
  }
  add_runs(activity, rows / 2, lines);
  lines.push_back({});
  // The table has what the waits of the chosen one leave, and at least a line besides its head.
  std::vector<Line> waits;
  const std::size_t left = rows - std::min(rows, lines.size());
  for (const ProcessActivity& each : processes) {
    if (each.process->pid == selected_) waits = wait_lines(each);
  }
  const std::size_t wanted = std::min(processes.size() + 1, left);
  const std::size_t room = left - wanted;
  if (room < 3) waits.clear();
  waits.resize(std::min({waits.size(), room > 0 ? room - 1 : 0, kRowsOfWaits}));
  add_processes(process_lines(processes, order_, columns), wanted, lines);
  if (!waits.empty()) lines.push_back({});
  std::move(waits.begin(), waits.end(), std::back_inserter(lines));
  return lines;
}

}  // namespace ebb::cli
