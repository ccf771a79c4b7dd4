// See top_command.h.
#include "top/top_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "json_text.h"
#include "run/child_process.h"
#include "top/live_view.h"
#include "top/run_finder.h"
#include "top/terminal_screen.h"
#include "top/top_json.h"
#include "top/top_table.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kIntervalLeast = 0.1;
constexpr double kIntervalMost = 3600;

double interval_of(const std::string& text) {
  if (text.empty()) return 1;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc{} || parsed != end || !(seconds >= kIntervalLeast && seconds <= kIntervalMost)) {
    throw Error(Status::kInvalid, fmt::format("--interval: '{}' is not a number of seconds from 0.1 to 3600", text));
  }
  return seconds;
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Rates take two readings. Where nothing runs, nothing is waited for.
int print_once(double interval, bool json) {
  const Readings before = read_runs();
  if (!before.runs.empty()) std::this_thread::sleep_for(duration_of(interval));
  const Readings now = before.runs.empty() ? before : read_runs();
  const Activity activity = activity_between(before, now);
  std::string text;
  if (json) {
    text = json_text(top_json(activity));
  } else {
    for (const Line& line : report_lines(activity)) text += line.text + "\n";
  }
  if (!write_all(STDOUT_FILENO, text)) throw Error(Status::kIoError, "what runs cannot be written to stdout");
  return 0;
}

// The signal that asked for the end; 0: a key did, or the terminal is gone.
int show_live(double interval) {
  TerminalScreen screen;
  LiveView view(interval);
  Keys keys;
  Readings before = read_runs();
  Readings now = before;
  Clock::time_point next = Clock::now() + duration_of(interval);
  for (;;) {
    screen.draw(view.compose(activity_between(before, now), screen.rows(), screen.columns()));
    const TerminalScreen::Event event = screen.wait(next, keys);
    if (event.kind == TerminalScreen::Event::Kind::kSignal) return event.signal == SIGINT ? 0 : event.signal;
    if (event.kind == TerminalScreen::Event::Kind::kClosed) return 0;
    const bool settled = event.kind == TerminalScreen::Event::Kind::kNothing;
    while (const auto key = keys.next(settled)) {
      if (!view.press(*key)) return 0;
    }
    if (Clock::now() < next) continue;
    before = std::move(now);
    now = read_runs();
    next = Clock::now() + duration_of(interval);
  }
}

}  // namespace

CLI::App* add_top(CLI::App& app, TopArguments& arguments) {
  CLI::App* command = app.add_subcommand("top", "Watch the programs that run under ebb run");
  command->add_option("--interval", arguments.interval, "Seconds between two looks, and over which rates are [1]")
      ->type_name("SECONDS");
  command->add_flag("--once", arguments.once, "Print one table and end, as where there is no terminal");
  command->add_flag("--json", arguments.json, "Print one JSON object and end");
  command->footer("Shows your own runs only. Keys: q ends, h tells the others.");
  return command;
}

int show_runs(const TopArguments& arguments) {
  const double interval = interval_of(arguments.interval);
  if (arguments.once || arguments.json || !TerminalScreen::possible()) return print_once(interval, arguments.json);
  const int signal = show_live(interval);
  if (signal != 0) die_by_signal(signal);
  return 0;
}

}  // namespace ebb::cli
