// See whatif_command.h. Everything that the user gave is checked before the program starts.
#include "plan/whatif_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "calibrate/calibrate_command.h"
#include "calibrate/calibration_file.h"
#include "calibrate/redirection.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/system/machine_memory.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "json_text.h"
#include "numbers.h"
#include "parallel.h"
#include "plan/follow_program.h"
#include "plan/whatif_report.h"
#include "plan/whatif_simulation.h"
#include "python_package.h"
#include "run/child_process.h"
#include "run/scratch_directory.h"
#include "sim/trace_simulator.h"
#include "text.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kStepsDefault = FollowRequest{}.steps;
constexpr std::uint32_t kStepsMax = 1000;
constexpr std::uint64_t kFitsFactor = 2;
constexpr std::array<std::uint64_t, 4> kParts{2, 3, 4, 8};

struct Request {
  std::vector<std::uint64_t> budgets;
  std::uint32_t steps = kStepsDefault;
  std::string flash;
  Machine machine;
};

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::kInvalid, message); }

template <typename Parse>
auto parsed(const char* option, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    refuse(fmt::format("{}: {}", option, error.what()));
  }
}

std::vector<std::uint64_t> budgets_of(const WhatIfArguments& arguments) {
  std::vector<std::uint64_t> budgets;
  const auto add = [&budgets](const char* option, const std::string& text) {
    const std::uint64_t bytes = parsed(option, text, [](const std::string& size) { return parse_size(size); });
    const std::uint64_t least = TraceSimulator::kBudgetBytesMin;
    if (bytes < least) refuse(fmt::format("{}: {} is too little; at least {}", option, text, format_size(least)));
    budgets.push_back(bytes);
  };
  if (!arguments.memory.empty()) {
    for (const std::string& text : split(arguments.memory, ',')) add("--memory", text);
  }
  if (!arguments.machine.device_memory.empty()) add("--device-memory", arguments.machine.device_memory);
  return budgets;
}

std::uint32_t steps_of(const std::string& text) {
  if (text.empty()) return kStepsDefault;
  if (const auto steps = read_number(text, 1, kStepsMax)) return *steps;
  refuse(fmt::format("--steps: '{}' is not a number from 1 to {}", text, kStepsMax));
}

Request checked(const WhatIfArguments& arguments) {
  if (arguments.command.empty())
    refuse("the command to plan is missing; write it after --: ebb plan -- python train.py");
  Request request;
  request.budgets = budgets_of(arguments);
  request.steps = steps_of(arguments.steps);
  request.machine = machine_of(arguments.machine);
  // Left out, a machine has neither a host tier below its memory nor a link to it.
  if (arguments.machine.host_memory.empty()) request.machine.host_bytes = 0;
  if (arguments.machine.pcie.empty()) request.machine.device_link_bps = kMemoryBps;
  Options options;
  parsed("--flash", arguments.flash.empty() ? default_flash_directory() : arguments.flash,
         [&options](const std::string& text) { return parse_flash(text, options), 0; });
  request.flash = options.flash;
  if (!arguments.to.empty()) {
    const auto folder = std::filesystem::absolute(arguments.to).parent_path();
    if (!std::filesystem::is_directory(folder))
      refuse(fmt::format("--to: there is no directory '{}'", folder.string()));
  }
  return request;
}

// From here on Ctrl-C ends us as usual: the program has ended, and what is left takes nothing along.
void let_signals_through() {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
}

// The speed that the user did not give: as measured before, or now.
std::string complete_flash(const WhatIfArguments& arguments, Request& request) {
  const bool read_given = !arguments.machine.flash_read.empty();
  const bool write_given = !arguments.machine.flash_write.empty();
  auto speeds = known_flash(request.flash);
  if (read_given && write_given) {
    if (speeds) request.machine.toll_bps = speeds->toll_bps;
    return "as given";
  }
  if (!speeds) {
    speeds = calibrate_flash(request.flash, [](std::string_view what) {
      show_progress(STDERR_FILENO, fmt::format("measuring this machine: {}", what));
    });
    show_progress(STDERR_FILENO, "");
  }
  request.machine.toll_bps = speeds->toll_bps;
  Machine& machine = request.machine;
  if (!read_given) {
    machine.flash_read_bps = speeds->disk.read;
    machine.busy_read_bps = speeds->busy.read;
  }
  if (!write_given) {
    machine.flash_write_bps = speeds->disk.write;
    machine.busy_write_bps = speeds->busy.write;
  }
  if (arguments.machine.flash_total.empty() && !read_given && !write_given) {
    machine.flash_total_bps = speeds->disk.total();
    machine.busy_total_bps = speeds->busy.total();
  }
  return fmt::format("{} measured in {}", read_given || write_given ? "partly" : "as", request.flash);
}

WhatIfRow row_for(std::string label, std::uint64_t memory_bytes) {
  WhatIfRow row;
  row.label = std::move(label);
  row.memory_bytes = memory_bytes;
  return row;
}

std::vector<WhatIfRow> rows_of(const Request& request, std::uint64_t peak_bytes) {
  std::vector<WhatIfRow> rows;
  for (const std::uint64_t bytes : request.budgets) rows.push_back(row_for("", bytes));
  if (!rows.empty()) return rows;
  rows.push_back(row_for("all", peak_bytes));
  for (const std::uint64_t part : kParts) rows.push_back(row_for(fmt::format("1/{}", part), peak_bytes / part));
  return rows;
}

// One rank's, of a budget for all.
WhatIfRow simulate_rank(const Trace& trace, const Machine& machine, std::uint32_t ranks, WhatIfRow row) {
  const std::uint64_t bytes = row.memory_bytes;
  row.memory_bytes /= ranks;
  // Where everything fits, blocks that are partly used need room too.
  if (row.label == "all") row.memory_bytes = std::max(kFitsFactor * row.memory_bytes, TraceSimulator::kBudgetBytesMin);
  row = simulate(trace, machine, row);
  row.memory_bytes = bytes;
  return row;
}

int report_on(const WhatIfArguments& arguments, Request& request, const Trace& trace, Json program) {
  const Vitality vitality = analyse(trace, 1);
  const std::uint32_t ranks = std::max(program.value("ranks_here", 1u), 1u);
  WhatIfFindings findings{trace, vitality, std::move(program), {}, "", 0, ranks, {}};
  findings.flash_source = complete_flash(arguments, request);
  findings.machine = request.machine;
  findings.available_bytes = read_machine_memory().usable_bytes();
  const Machine machine = with_part_of_flash(request.machine, ranks);
  findings.rows = rows_of(request, ranks * vitality.peak_live_bytes);
  std::vector<std::function<void()>> pieces;
  for (WhatIfRow& row : findings.rows) pieces.emplace_back([&] { row = simulate_rank(trace, machine, ranks, row); });
  const auto told = [&](std::size_t done) {
    show_progress(STDERR_FILENO, fmt::format("simulated {} of {} budgets", done, pieces.size()));
  };
  told(0);
  run_in_parallel(pieces, told);
  show_progress(STDERR_FILENO, "");
  const std::string text =
      arguments.json ? json_text(to_json(findings)) : to_table(findings, wants_colour(STDOUT_FILENO));
  write_all(STDOUT_FILENO, text);
  return 0;
}

}  // namespace

int plan_program(const WhatIfArguments& arguments) {
  Request request = checked(arguments);
  Json program;
  Trace trace;
  block_signals();
  {
    const ScratchDirectory scratch;
    FollowOutcome outcome = follow_program({arguments.command, request.steps, false}, scratch);
    if (!outcome.problem.empty()) write_all(STDERR_FILENO, fmt::format("ebb: {}\n", outcome.problem));
    if (outcome.exit_code != 0) return outcome.exit_code;
    program = std::move(outcome.report);
    trace = read_trace(scratch.file("trace.jsonl"));
  }
  let_signals_through();
  if (!arguments.to.empty()) write_trace(trace, arguments.to);
  return report_on(arguments, request, trace, std::move(program));
}

}  // namespace ebb::cli
