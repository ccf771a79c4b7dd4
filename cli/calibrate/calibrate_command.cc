// See calibrate_command.h.
#include "calibrate/calibrate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "calibrate/calibration_file.h"
#include "calibrate/redirection.h"
#include "doctor/check.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "flash_directory.h"
#include "json_text.h"
#include "python_package.h"
#include "run/child_process.h"
#include "run/scratch_directory.h"

extern char** environ;

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNoTorchCode = 1;
constexpr std::size_t kTailLines = 3;
constexpr double kBusyShare = 0.5;

std::string flash_directory(const std::string& given) {
  Options options;
  try {
    parse_flash(given.empty() ? default_flash_directory() : given, options);
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("--flash: {}", error.what()));
  }
  const FlashFacts facts = inspect_flash(options.flash);
  if (!facts.problem.empty()) throw Error(Status::kInvalid, facts.problem);
  return facts.directory;
}

std::vector<std::string> interpreters(const std::string& given) {
  return given.empty() ? candidate_interpreters() : std::vector<std::string>{given};
}

// What the first interpreter that has torch measures; nothing if none has. `trouble` says why.
std::optional<Json> measure_kernels(const CalibrateArguments& arguments, std::string& trouble) {
  const ScratchDirectory scratch;
  const std::string script = python_directory() + "/ebbtide/whatif/hook/calibrate.py";
  for (const std::string& interpreter : interpreters(arguments.python)) {
    const std::string output = scratch.file("output");
    ::unlink(output.c_str());
    ChildOutcome outcome;
    {
      const Redirection redirection(output, Redirection::What::kOutputAndErrors);
      std::vector<std::string> environment;
      for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
      if (redirection.terminal() >= 0) {
        environment.push_back(fmt::format("EBB_WHATIF_PROGRESS={}", redirection.terminal()));
      }
      outcome = run_child({interpreter, script, scratch.file("result")}, environment, nullptr);
    }
    if (outcome.signal != 0) die_by_signal(outcome.signal);
    const auto text = read_text(scratch.file("result"));
    const Json json = text ? Json::parse(*text, nullptr, false) : Json();
    if (outcome.start_error.empty() && outcome.exit_code == 0 && json.is_object()) return json;
    trouble += outcome.start_error.empty() ? fmt::format("{}:\n{}", interpreter, tail_of(output, kTailLines))
                                           : outcome.start_error + "\n";
  }
  return std::nullopt;
}

std::string rates_line(std::string_view what, const FlashRates& rates) {
  return fmt::format("  {:<17} reads {:.2f} GB/s, writes {:.2f} GB/s; both at once {:.2f} and {:.2f}\n", what,
                     rates.read / 1e9, rates.write / 1e9, rates.read_mixed / 1e9, rates.write_mixed / 1e9);
}

std::string table(const Json& kernels, const FlashSpeeds& flash, const std::string& directory) {
  std::string out = fmt::format("{}\n", kernels.value("key", ""));
  out += fmt::format("  matrix products   {:.0f} GFLOP/s in float32\n", kernels.value("matrix_gflops", 0.0));
  out += fmt::format("  copies            {:.1f} GB/s, beyond the caches\n", kernels.value("copy_gbps", 0.0));
  out += fmt::format("  fresh memory      {:.2f} ns a byte more\n", kernels.value("fault_ns_per_byte", 0.0));
  out += fmt::format("  an operator       {:.1f} us besides its work\n", kernels.value("overhead_ns", 0.0) / 1e3);
  out +=
      fmt::format("{}\n{}{}", directory, rates_line("flash", flash.disk), rates_line("beside a program", flash.busy));
  return out + fmt::format("kept in {}\n", calibration_path());
}

// Numbers of a busy machine are those of what was left of it.
std::string busy_note() {
  double load = 0;
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  if (::getloadavg(&load, 1) != 1 || load < kBusyShare * processors) return "";
  return fmt::format("note: this machine was busy (load {:.1f} on {} processors); measure again when it is not\n", load,
                     processors);
}

}  // namespace

void show_progress(int terminal, std::string_view text) {
  if (terminal < 0 || ::isatty(terminal) != 1) return;
  write_all(terminal, text.empty() ? "\r\033[K" : fmt::format("\r\033[K{}", text));
}

int calibrate_machine(const CalibrateArguments& arguments) {
  const std::string directory = flash_directory(arguments.flash);
  const std::string busy = busy_note();
  const FlashSpeeds flash = calibrate_flash(directory, [](std::string_view what) {
    show_progress(STDERR_FILENO, fmt::format("measuring this machine: {}", what));
  });
  block_signals();
  std::string trouble;
  const auto kernels = measure_kernels(arguments, trouble);
  show_progress(STDERR_FILENO, "");
  if (!kernels) {
    write_all(STDERR_FILENO, fmt::format("{}ebb: no Python here has torch, so kernels were not measured; name one in "
                                         "EBB_PYTHON\n",
                                         trouble));
    return kNoTorchCode;
  }
  Json json = *kernels;
  json["flash"] = to_json(flash);
  json["flash"]["directory"] = directory;
  json["file"] = calibration_path();
  write_all(STDOUT_FILENO, arguments.json ? json_text(json) : table(*kernels, flash, directory));
  write_all(STDERR_FILENO, busy);
  return 0;
}

}  // namespace ebb::cli
