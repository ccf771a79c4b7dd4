// See command_line.h.
#include "command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "warm_up.h"

namespace ebb::cli {
namespace {

// Shows in the first line of the help where the program goes.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: ebb run [OPTIONS] -- COMMAND [ARGUMENTS...]\n";
  }
};

class PlanFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: ebb plan TRACE [OPTIONS]\n       ebb plan [OPTIONS] -- COMMAND [ARGUMENTS...]\n";
  }
};

CLI::App* add_run(CLI::App& app, RunArguments& run) {
  CLI::App* command = app.add_subcommand("run", "Run an unmodified program within a memory budget");
  command->formatter(std::make_shared<RunFormatter>());
  command
      ->add_option("--memory", run.memory,
                   "Memory budget; auto: what other programs leave, as it changes [80 % of what is free]")
      ->type_name("SIZE|auto")
      ->envname("EBB_MEMORY");
  command
      ->add_option("--device-memory", run.device_memory,
                   "Manage cuda tensors, in so much GPU memory; --memory is below")
      ->type_name("SIZE")
      ->envname("EBB_DEVICE_MEMORY");
  command->add_option("--device", run.device, "Which GPU, as CUDA counts them [0]")
      ->type_name("NUMBER")
      ->envname("EBB_DEVICE");
  command->add_option("--flash", run.flash, "Directory on a real disk for what does not fit [$TMPDIR or /tmp]")
      ->type_name("DIR[:SIZE]")
      ->envname("EBB_FLASH");
  command->add_flag("--encrypt", run.encrypt, "Encrypt what goes to flash, with a key that ends with each process")
      ->envname("EBB_ENCRYPT");
  command
      ->add_option("--verify", run.verify,
                   "What proves that a block need not be written again: its digest, or content (bytes) [digest]")
      ->type_name("digest|content")
      ->envname("EBB_VERIFY");
  command->add_flag("--no-core-dumps", run.no_core_dumps, "Leave tensors out of core dumps");
  command->add_option("--policy", run.policy, "foresight, window, on_demand, or a rival of ebb sim [foresight]")
      ->type_name("NAME")
      ->envname("EBB_POLICY");
  command->add_option("--record", run.record, "Write a trace of one iteration, for ebb plan and ebb sim")
      ->type_name("FILE[.gz|.zst]")
      ->envname("EBB_RECORD");
  command
      ->add_option("--record-iterations", run.record_iterations,
                   "Of so many iterations in a row, as they differ; not of one that stands for all [1]")
      ->type_name("N")
      ->envname("EBB_RECORD_ITERATIONS");
  command->add_option("--guide", run.guide, "Plan the first steps by this trace of them; it is made if it is not there")
      ->type_name("FILE[.gz|.zst]")
      ->envname("EBB_GUIDE");
  command->add_option("--block", run.block, "Unit of residency, a power of two [a 64th of memory, at most 2MiB]")
      ->type_name("SIZE")
      ->envname("EBB_BLOCK");
  command->add_option("--managed-min", run.managed_min, "Smaller tensors stay in ordinary memory [64KiB]")
      ->type_name("SIZE")
      ->envname("EBB_MANAGED_MIN");
  command
      ->add_option("--share", run.share,
                   "How its processes share the budget: stalls (to who waits most) or equal [stalls]")
      ->type_name("stalls|equal")
      ->envname("EBB_SHARE");
  command->add_flag("--strict", run.strict, "End a process that uses memory and cannot be managed");
  command->add_option("--summary", run.summary, "Write the summary to this file, as JSON")->type_name("FILE");
  command->add_option("--report", run.report, "Write a page about the run, where time and memory went, or its data")
      ->type_name("FILE.html|FILE.json");
  command
      ->add_option("--trace-events", run.events,
                   "Write steps, waits, memory and traffic over time, for ui.perfetto.dev")
      ->type_name("FILE.json");
  command->add_flag("--quiet", run.quiet, "No status line and no summary on the terminal");
  command->add_flag("--json", run.json, "Print the summary as JSON on stdout instead of a table on stderr");
  command->footer(
      "Sizes are written 1.5GiB, 40GB or 65536. The exit code is that of the program. The budget is one for all\n"
      "processes that it starts, such as the ranks of torchrun.\n"
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

CLI::App* add_plan(CLI::App& app, PlanArguments& plan, WhatIfArguments& whatif) {
  CLI::App* command = app.add_subcommand("plan", "Say what a trace, or a program, needs and how fast it can be");
  command->formatter(std::make_shared<PlanFormatter>());
  command->add_option("TRACE", plan.trace, "Trace (.jsonl, .gz or .zst); -: standard input")->type_name("");
  add_machine_options(*command, plan.machine);
  add_warm_up_option(*command, plan.warm_up);
  command->add_option("--html", plan.html, "Write the plot of memory over time to this file, as a page of its own")
      ->type_name("FILE");
  command->add_flag("--json", plan.json, "Print one JSON object instead of a table and a plot");
  command->add_option("--memory", whatif.memory, "Of a program: budgets to predict [its peak, 1/2, 1/3, 1/4 and 1/8]")
      ->type_name("SIZE,...");
  command->add_option("--flash", whatif.flash, "Of a program: the directory whose speed counts [$TMPDIR or /tmp]")
      ->type_name("DIR");
  command->add_option("--steps", whatif.steps, "Of a program: steps to take; the last one counts [2]")->type_name("N");
  command->add_option("--to", whatif.to, "Of a program: write its trace to this file")->type_name("FILE");
  command->footer(
      "A program is not run but followed, with tensors that have no content: no memory, no compute.\n"
      "Sizes are written 40GiB or 65536, rates 15.754GB/s or 500MiB/s.\n"
      "Examples: ebb plan vit.jsonl.gz --device-memory 24GiB --host-memory 64GiB\n"
      "          ebb plan --memory 8GiB,16GiB -- python train.py");
  return command;
}

CLI::App* add_calibrate(CLI::App& app, CalibrateArguments& calibrate) {
  CLI::App* command = app.add_subcommand("calibrate", "Measure how fast this machine computes, for ebb plan");
  command->add_option("--flash", calibrate.flash, "Directory whose disk is measured [$TMPDIR or /tmp]")
      ->type_name("DIR")
      ->envname("EBB_FLASH");
  command->add_option("--python", calibrate.python, "Interpreter with torch [$EBB_PYTHON, or as ebb doctor finds it]")
      ->type_name("FILE");
  command->add_flag("--json", calibrate.json, "Print one JSON object instead of a table");
  command->footer("Takes 15 to 25 seconds; let nothing else run. OMP_NUM_THREADS counts, as it does for programs.");
  return command;
}

CLI::App* add_sim(CLI::App& app, SimArguments& sim) {
  CLI::App* command = app.add_subcommand("sim", "Run a trace on a simulated machine, with one policy beside the other");
  command->add_option("TRACE", sim.trace, "Trace (.jsonl, .gz or .zst); -: standard input")->required()->type_name("");
  add_machine_options(*command, sim.machine);
  command->add_option("--policy", sim.policy, "all, or names: on_demand, deepum, g10, foresight, ... [all]")
      ->type_name("NAME,...");
  command->add_option("--block", sim.block, "Unit of residency, a power of two [a 64th of memory, at most 2MiB]")
      ->type_name("SIZE");
  command->add_option("--timing", sim.timing, "strict, or artifact: as in the simulator published with G10 [strict]")
      ->type_name("strict|artifact");
  command->add_option("--vary", sim.vary, "Vary kernel times by up to this part, after the first iteration [0]")
      ->type_name("SHARE");
  command->add_option("--seed", sim.seed, "Of that variation [1]")->type_name("N");
  command->add_option("--iterations", sim.iterations, "Of one that repeats: how many; the last one is reported [5]")
      ->type_name("N");
  add_warm_up_option(*command, sim.warm_up);
  command->add_flag("--no-bound", sim.no_bound, "Not what no schedule is faster than, which takes most of the time");
  auto* const ranks = command->add_option("--ranks", sim.ranks, "Instead: so many ranks that sum up their gradients")
                          ->type_name("N,...");
  command->add_option("--network", sim.network, "Of ranks: between neighbours in a ring [12.5GB/s]")
      ->type_name("RATE")
      ->needs(ranks);
  command->add_option("--latency", sim.latency_us, "Of ranks: of a message, in microseconds [10]")
      ->type_name("MICROSECONDS")
      ->needs(ranks);
  command->add_option("--per-drive", sim.per_drive, "Of ranks: so many share a drive, the others have another one [8]")
      ->type_name("N")
      ->needs(ranks);
  command->add_flag("--json", sim.json, "Print one JSON object instead of a table");
  command->footer(
      "Example: ebb sim vit.jsonl.gz --device-memory 40GiB --host-memory 128GiB --flash-read 3.2GB/s --policy all");
  return command;
}

CLI::App* add_trace(CLI::App& app, TraceArguments& trace) {
  CLI::App* command = app.add_subcommand("trace", "Say what a trace holds, and convert those of other tools");
  command->add_option("FILE", trace.file, "ebb-trace, PyTorch or Chakra execution trace; -: standard input")
      ->required()
      ->type_name("");
  command
      ->add_option("--to", trace.to,
                   "Write it as an ebb-trace (FILE.jsonl, .jsonl.gz, .jsonl.zst), or for Perfetto (FILE.json)")
      ->type_name("FILE");
  command->add_flag("--json", trace.json, "Print one JSON object instead of a table");
  command->footer("Example: ebb trace pytorch_et.json --to step.jsonl.gz");
  return command;
}

CLI::App* add_fuzz(CLI::App& app, FuzzArguments& fuzz) {
  CLI::App* command = app.add_subcommand("fuzz", "Look for defects: random programs and faults, in simulation");
  command->add_option("--seed", fuzz.seed, "The first one; each has a machine, faults and a program [at random]")
      ->type_name("N");
  command->add_option("--minutes", fuzz.minutes, "How long [1, or until --runs are done]")->type_name("M");
  command->add_option("--runs", fuzz.runs, "How many seeds")->type_name("N");
  command->add_option("--ops", fuzz.operations, "Operations of a program [300]")->type_name("N");
  command->add_option("--save", fuzz.save, "Write the short program of a failure to this file")->type_name("FILE");
  command->add_option("--replay", fuzz.replay, "Instead: the programs of this file, or of those in this directory")
      ->type_name("PATH");
  command->add_flag("--json", fuzz.json, "Print one JSON object instead of text");
  command->footer("Exit code: 1 if something failed, with the line that has it again; Ctrl-C ends with a summary.");
  return command;
}

CLI::App* add_completion(CLI::App& app, CompletionArguments& completion) {
  CLI::App* command = app.add_subcommand("completion", "Print a shell's completion of this command line");
  command->add_option("SHELL", completion.shell, "Which one")->required()->type_name("bash|zsh|fish");
  command->footer("Example: source <(ebb completion bash)");
  return command;
}

CLI::App* add_man(CLI::App& app, ManArguments& man) {
  CLI::App* command = app.add_subcommand("man", "Print a manual page, as man reads it");
  std::string names;
  for (const CLI::App* other : app.get_subcommands([](const CLI::App* /*any*/) { return true; })) {
    names += (names.empty() ? "" : "|") + other->get_name();
  }
  command->add_option("COMMAND", man.command, "Of which command [of ebb itself]")->type_name(names);
  command->add_option("--to", man.directory, "Instead: write all pages into this directory")->type_name("DIR");
  command->footer("Example: ebb man run | man -l -");
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

// A trace is read; what stands after "--" is followed first.
int plan_either(CommandLine::Arguments& arguments, bool marked, std::vector<std::string> command) {
  const PlanArguments& plan = arguments.plan;
  WhatIfArguments& whatif = arguments.whatif;
  if (!marked) {
    if (plan.trace.empty()) {
      throw Error(Status::kInvalid, "name a trace, or the command to plan after --: ebb plan -- python train.py");
    }
    for (const auto& [option, value] : {std::pair{"--memory", &whatif.memory}, std::pair{"--flash", &whatif.flash},
                                        std::pair{"--steps", &whatif.steps}, std::pair{"--to", &whatif.to}}) {
      if (value->empty()) continue;
      throw Error(Status::kInvalid, fmt::format("{} is for a program (ebb plan -- COMMAND), not for a trace", option));
    }
    return plan_trace(plan);
  }
  if (!plan.trace.empty()) {
    throw Error(Status::kInvalid,
                fmt::format("'{}' stands before --; give a trace or a command, not both", plan.trace));
  }
  if (!plan.warm_up.empty()) throw Error(Status::kInvalid, "--warm-up is for a trace of a sequence of iterations");
  if (!plan.html.empty()) {
    throw Error(Status::kInvalid, "--html is for a trace; write one with --to FILE, then: ebb plan FILE --html PAGE");
  }
  whatif.machine = plan.machine;
  whatif.json = plan.json;
  whatif.command = std::move(command);
  return plan_program(whatif);
}

}  // namespace

CommandLine::CommandLine() : app_("Ebbtide: train and run models larger than memory, unmodified", "ebb") {
  app_.set_version_flag("--version", "ebb " EBB_VERSION);
  app_.require_subcommand(1);
  run_ = add_run(app_, arguments_.run);
  commands_ = {
      {add_top(app_, arguments_.top), [this] { return show_runs(arguments_.top); }},
      {add_report(app_, arguments_.report), [this] { return show_report(arguments_.report); }},
      {add_doctor(app_, arguments_.doctor), [this] { return examine_machine(arguments_.doctor); }},
      {add_trace(app_, arguments_.trace), [this] { return show_trace(arguments_.trace); }},
      {add_plan(app_, arguments_.plan, arguments_.whatif),
       [this] { return plan_either(arguments_, marked_, std::move(tail_)); }},
      {add_calibrate(app_, arguments_.calibrate), [this] { return calibrate_machine(arguments_.calibrate); }},
      {add_sim(app_, arguments_.sim), [this] { return simulate_trace(arguments_.sim); }},
      {add_fuzz(app_, arguments_.fuzz), [this] { return fuzz(arguments_.fuzz); }},
      {add_completion(app_, arguments_.completion), [this] { return print_completion(app_, arguments_.completion); }},
      {add_man(app_, arguments_.man), [this] { return print_man_page(app_, arguments_.man); }},
  };
}

// Help and version are exceptions, too.
void CommandLine::parse(std::vector<std::string> words) {
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app_.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;
    const std::string_view problem = error.what();
    const std::size_t repeated = problem.find(": At Most 1 required");
    if (repeated == std::string_view::npos) throw Error(Status::kInvalid, fmt::format("{}; see ebb --help", problem));
    throw Error(Status::kInvalid, fmt::format("{} is given more than once; give it once", problem.substr(0, repeated)));
  }
  refuse_empty_values(*app_.get_subcommands().front());
}

std::optional<int> CommandLine::read(std::vector<std::string> words) {
  const auto mark = std::find(words.begin(), words.end(), "--");
  marked_ = mark != words.end() && (words.front() == "run" || words.front() == "plan");
  if (marked_) {
    tail_.assign(mark + 1, words.end());
    words.erase(mark, words.end());
  }
  if (words.empty()) {
    write_all(STDERR_FILENO, app_.help());
    return kUsageCode;
  }
  const std::string& first = words.front();
  const auto named_so = [&](const CLI::App* command) { return command->get_name() == first; };
  if (first.rfind('-', 0) != 0 && app_.get_subcommands(named_so).empty()) {
    throw Error(Status::kInvalid, fmt::format("unknown command '{}'; see ebb --help", first));
  }
  try {
    parse(std::move(words));
  } catch (const CLI::ParseError& help) {
    return app_.exit(help);
  }
  return std::nullopt;
}

int CommandLine::run() {
  for (const Command& each : commands_) {
    if (each.app->parsed()) return each.run();
  }
  take_command(*run_, std::move(tail_), marked_, arguments_.run);
  return run_program(arguments_.run);
}

}  // namespace ebb::cli
