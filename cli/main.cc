// The command line `ebb`: reads arguments, calls one command, and turns every Error into one line on stderr and exit
// code 2. The program that `ebb run` starts is cut off the arguments first, so none of its options is ever read here.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "doctor/doctor_command.h"
#include "drivers/linux/system_files.h"
#include "ebb/status.h"
#include "run/run_command.h"

#ifndef EBB_VERSION
#define EBB_VERSION "0.1.0"
#endif

namespace ebb::cli {
namespace {

constexpr int kUsageCode = 2;

struct CommandLine {
  RunArguments run;
  DoctorArguments doctor;
};

// Shows in the first line of the help where the program goes.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: ebb run [OPTIONS] -- COMMAND [ARGUMENTS...]\n";
  }
};

int complain(const std::string& message) {
  write_all(STDERR_FILENO, fmt::format("ebb: {}\n", message));
  return kUsageCode;
}

CLI::App* add_run(CLI::App& app, RunArguments& run) {
  CLI::App* command = app.add_subcommand("run", "Run an unmodified program within a memory budget");
  command->formatter(std::make_shared<RunFormatter>());
  command->add_option("--memory", run.memory, "Memory budget [80 % of what is free]")
      ->type_name("SIZE")
      ->envname("EBB_MEMORY");
  command->add_option("--flash", run.flash, "Directory on a real disk for what does not fit [$TMPDIR or /tmp]")
      ->type_name("DIR[:SIZE]")
      ->envname("EBB_FLASH");
  command->add_option("--policy", run.policy, "on_demand, window or foresight [foresight]")
      ->type_name("NAME")
      ->envname("EBB_POLICY");
  command->add_option("--block", run.block, "Unit of residency, a power of two [2MiB]")
      ->type_name("SIZE")
      ->envname("EBB_BLOCK");
  command->add_option("--managed-min", run.managed_min, "Smaller tensors stay in ordinary memory [64KiB]")
      ->type_name("SIZE")
      ->envname("EBB_MANAGED_MIN");
  command->add_option("--summary", run.summary, "Write the summary to this file, as JSON")->type_name("FILE");
  command->add_flag("--quiet", run.quiet, "No status line and no summary on the terminal");
  command->add_flag("--json", run.json, "Print the summary as JSON on stdout instead of a table on stderr");
  command->footer(
      "Sizes are written 1.5GiB, 40GB or 65536. The exit code is that of the program.\n"
      "Example: ebb run --memory 1.5GiB --flash /nvme -- python train.py");
  command->prefix_command();
  return command;
}

CLI::App* add_doctor(CLI::App& app, DoctorArguments& doctor) {
  CLI::App* command = app.add_subcommand("doctor", "Say what this machine allows, and how to allow more");
  command->add_option("--flash", doctor.flash, "Directory to examine [$TMPDIR or /tmp]")
      ->type_name("DIR")
      ->envname("EBB_FLASH");
  command->add_flag("--json", doctor.json, "Print one JSON object instead of a table");
  command->add_flag("--quick", doctor.quick, "Skip the measurement of the disk");
  command->footer("Exit code: 0 if `ebb run` can work here, 1 if something blocks it, 2 for a usage error.");
  return command;
}

// An empty value is most likely a shell variable that is not set: refuse it rather than take the default.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_items_expected() > 0 && option->count() > 0 && option->results().front().empty()) {
      throw Error(Status::kInvalid, fmt::format("{}: the value is empty", option->get_name()));
    }
  }
}

// What CLI11 did not recognize begins the program's command line, unless it looks like a mistyped option.
void take_command(const CLI::App& command, std::vector<std::string> tail, bool marked, RunArguments& run) {
  run.command = command.remaining();
  if (!run.command.empty() && run.command.front().rfind('-', 0) == 0) {
    throw Error(Status::kInvalid, fmt::format("unknown option '{}'; see ebb run --help", run.command.front()));
  }
  // Without a mark before the program, a later "--" is the program's own.
  if (marked && !run.command.empty()) run.command.emplace_back("--");
  run.command.insert(run.command.end(), tail.begin(), tail.end());
}

int dispatch(std::vector<std::string> arguments) {
  CommandLine line;
  CLI::App app("Ebbtide: train and run models larger than memory, unmodified", "ebb");
  app.set_version_flag("--version", "ebb " EBB_VERSION);
  app.require_subcommand(1);
  CLI::App* run = add_run(app, line.run);
  CLI::App* doctor = add_doctor(app, line.doctor);

  std::vector<std::string> tail;
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  const bool marked = mark != arguments.end() && arguments.front() == "run";
  if (marked) {
    tail.assign(mark + 1, arguments.end());
    arguments.erase(mark, arguments.end());
  }
  if (arguments.empty()) {
    write_all(STDERR_FILENO, app.help());
    return kUsageCode;
  }
  const std::string& first = arguments.front();
  if (first.rfind('-', 0) != 0 && first != run->get_name() && first != doctor->get_name()) {
    return complain(fmt::format("unknown command '{}'; see ebb --help", first));
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return complain(fmt::format("{}; see ebb --help", error.what()));
  }
  refuse_empty_values(doctor->parsed() ? *doctor : *run);
  if (doctor->parsed()) return examine_machine(line.doctor);
  take_command(*run, std::move(tail), marked, line.run);
  return run_program(line.run);
}

}  // namespace
}  // namespace ebb::cli

int main(int argc, char** argv) {
  try {
    return ebb::cli::dispatch(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const std::exception& error) {
    return ebb::cli::complain(error.what());
  }
}
