// See report_advice.h.
#include "run/report/report_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "calibrate/calibration_file.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "machine_options.h"
#include "parallel.h"
#include "plan/vitality.h"
#include "plan/whatif_simulation.h"
#include "run/stats_reader.h"
#include "text.h"
#include "trace/reader.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kLaunchesMax = 50'000;  // more would take minutes to simulate
constexpr std::uint64_t kFitsFactor = 2;      // where everything fits, blocks that are partly used need room too
constexpr double kWorthTelling = 0.02;        // of a step

// As `ebb calibrate` measured the disk, or else as the run found it.
Machine machine_of_run(const Trace& trace, const RunAccount& account, std::string& source) {
  Machine machine = machine_of(MachineArguments{}, trace.origin);
  source = "as the run found it";
  if (const auto speeds = known_flash(account.disk)) {
    machine.flash_read_bps = speeds->disk.read;
    machine.flash_write_bps = speeds->disk.write;
    machine.flash_total_bps = speeds->disk.total();
    source = "as `ebb calibrate` measured it";
  }
  return machine;
}

Machine with_disk_twice_as_fast(Machine machine) {
  for (double* const bps : {&machine.flash_read_bps, &machine.flash_write_bps, &machine.flash_total_bps,
                            &machine.busy_read_bps, &machine.busy_write_bps, &machine.busy_total_bps}) {
    *bps *= 2;
  }
  return machine;
}

WhatIfRow row_of(const char* label, std::uint64_t memory_bytes) {
  WhatIfRow row;
  row.label = label;
  row.memory_bytes = memory_bytes;
  return row;
}

void add_prediction(std::vector<std::string>& texts, const RunAccount& account, const Prediction& prediction) {
  const WhatIfRow& now = prediction.rows.front();
  const double step = seconds_of(now.step_ns);
  const std::pair<double, const char*> parts[] = {{seconds_of(now.read_ns), "reading from flash"},
                                                  {seconds_of(now.write_ns), "writing to flash"},
                                                  {seconds_of(now.compute_ns), "computing"}};
  const auto& [most, what] = *std::max_element(std::begin(parts), std::end(parts));
  texts.push_back(
      fmt::format("By the planner's simulation of the recorded iteration {} binds: it takes {:.0f} % of a "
                  "step of {} (measured, median: {}).",
                  what, 100 * most / step, format_seconds(step), format_seconds(median(account.step_seconds))));
  for (std::size_t i = 1; i < prediction.rows.size(); ++i) {
    const WhatIfRow& row = prediction.rows[i];
    const double saved = step - seconds_of(row.step_ns);
    const std::string memory = row.memory_bytes > now.memory_bytes
                                   ? fmt::format(" ({})", format_size(row.memory_bytes - now.memory_bytes))
                                   : "";
    if (saved > kWorthTelling * step) {
      texts.push_back(fmt::format("{}{} would save {} of each step.", row.label, memory, format_seconds(saved)));
    } else {
      texts.push_back(fmt::format("{}{} would save next to nothing.", row.label, memory));
    }
  }
}

const char* remedy_of(WaitCause cause) {
  switch (cause) {
    case WaitCause::kLate:
      return "what was needed was on its way and late: a faster drive or more memory shortens that";
    case WaitCause::kUnplanned:
      return "nobody had begun to fetch what was needed. Of the first iterations nothing is known; --guide FILE tells "
             "of "
             "them beforehand, where the program can be followed";
    case WaitCause::kFault:
      return "memory was touched that no operator had announced, as NumPy or an extension does: what is touched there "
             "cannot be fetched ahead";
    case WaitCause::kNoFrame:
      return "no memory was free, and something had to be written first: more memory, or a drive "
             "that writes faster, shortens that";
    case WaitCause::kFlashFull: return "flash was full: give it more room (--flash DIR:SIZE)";
  }
  return "";
}

}  // namespace

Prediction predict(const RunAccount& account, const std::string& recording) {
  Prediction prediction;
  std::error_code none;
  if (recording.empty() || !std::filesystem::exists(recording, none)) {
    prediction.note = "no iteration was recorded: it takes more than four of them";
    return prediction;
  }
  try {
    const Trace trace = read_trace(recording);
    if (trace.steps.size() > 1 || trace.launches.size() > kLaunchesMax) {
      prediction.note = "what was recorded is too long to be simulated here: ask `ebb plan` and `ebb sim`";
      return prediction;
    }
    std::string source;
    const Machine machine = machine_of_run(trace, account, source);
    const std::uint64_t memory = machine.device_bytes;
    const std::uint64_t peak = analyse(trace, 1).peak_live_bytes;
    prediction.note = fmt::format("One recorded iteration, simulated with the policy foresight; the disk {}.", source);
    constexpr std::size_t kFasterDisk = 2;
    prediction.rows = {row_of("As it was run", memory), row_of("A quarter more memory", memory + memory / 4),
                       row_of("A drive twice as fast", memory)};
    const bool may_fit = kFitsFactor * peak > memory + memory / 4;
    if (may_fit) prediction.rows.push_back(row_of("Room for everything", kFitsFactor * peak));
    std::vector<std::function<void()>> pieces;
    for (std::size_t i = 0; i < prediction.rows.size(); ++i) {
      pieces.emplace_back([&, i] {
        WhatIfRow& row = prediction.rows[i];
        row = simulate(trace, i == kFasterDisk ? with_disk_twice_as_fast(machine) : machine, row);
      });
    }
    run_in_parallel(pieces, [](std::size_t) {});
    if (may_fit) prediction.rows.back().memory_bytes = std::max(peak, memory);
    if (!prediction.rows.front().problem.empty() || prediction.rows.front().step_ns == 0) {
      prediction.note = "the recorded iteration could not be simulated: " + prediction.rows.front().problem;
      prediction.rows.clear();
    }
    std::erase_if(prediction.rows, [](const WhatIfRow& row) { return !row.problem.empty(); });
  } catch (const Error& error) {
    prediction.note = fmt::format("the recording cannot be read: {}", error.what());
    prediction.rows.clear();
  }
  return prediction;
}

std::vector<std::string> advice(const RunAccount& account, const Prediction& prediction) {
  std::vector<std::string> texts;
  const WaitReport& waits = account.waits;
  const double wall = account.outcome.wall_seconds;
  const double stalled = seconds_of(waits.total_ns);
  if (wall <= 0 || stalled < kWorthTelling * wall) {
    texts.push_back("It hardly waited for memory: more of it, or a faster drive, would not make it faster.");
  } else {
    const auto most = std::max_element(waits.cause_ns.begin(), waits.cause_ns.end());
    const auto cause = static_cast<WaitCause>(most - waits.cause_ns.begin());
    texts.push_back(fmt::format("It waited for {:.0f} % of its time. Of that, {:.0f} % because {}.",
                                100 * stalled / wall, 100 * seconds_of(*most) / stalled, remedy_of(cause)));
    if (const std::string blocks = block_advice(account); !blocks.empty()) texts.push_back(blocks + ".");
    if (!waits.modules.empty()) {
      const WaitEntry& worst = waits.modules.front();
      texts.push_back(
          fmt::format("Most was waited in {}: {:.0f} %.", worst.name, 100 * seconds_of(worst.total_ns()) / stalled));
    }
  }
  if (!prediction.rows.empty()) {
    add_prediction(texts, account, prediction);
  } else {
    texts.push_back(fmt::format("What more memory or another drive would save is not foretold: {}.", prediction.note));
  }
  return texts;
}

}  // namespace ebb::cli
