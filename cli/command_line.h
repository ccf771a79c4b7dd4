// CommandLine: what `ebb` takes, and what a user typed of it: read() takes the words, run() does what they say. The
// program that `ebb run` starts is cut off the words first, so none of its options is ever read here. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/calibrate_command.h"
#include "doctor/doctor_command.h"
#include "fuzz/fuzz_command.h"
#include "plan/plan_command.h"
#include "plan/whatif_command.h"
#include "reference/reference_command.h"
#include "run/report/report_command.h"
#include "run/run_command.h"
#include "sim/sim_command.h"
#include "top/top_command.h"
#include "trace/trace_command.h"

namespace ebb::cli {

class CommandLine {
 public:
  static constexpr int kUsageCode = 2;

  // Of every command; those of one are filled.
  struct Arguments {
    RunArguments run;
    DoctorArguments doctor;
    TraceArguments trace;
    PlanArguments plan;
    WhatIfArguments whatif;
    CalibrateArguments calibrate;
    SimArguments sim;
    FuzzArguments fuzz;
    TopArguments top;
    ReportArguments report;
    CompletionArguments completion;
    ManArguments man;
  };

  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Once. The exit code if nothing is left to do, after --help and the like. Throws Error for what cannot be meant.
  std::optional<int> read(std::vector<std::string> words);
  // The exit code of the command that was read. Throws Error for what the user gave.
  int run();

  // The command that was read, such as "sim".
  const std::string& command() const { return app_.get_subcommands().front()->get_name(); }
  const Arguments& arguments() const { return arguments_; }
  // Whether a program stood after "--".
  bool marked() const { return marked_; }

 private:
  struct Command {
    CLI::App* app;
    std::function<int()> run;
  };

  void parse(std::vector<std::string> words);

  CLI::App app_;
  Arguments arguments_;
  std::vector<Command> commands_;
  CLI::App* run_;
  std::vector<std::string> tail_;  // what stood after "--"
  bool marked_ = false;
};

}  // namespace ebb::cli
