// See run_command.h. Order matters: everything that can be refused is refused before the program starts; from
// block_signals() on the scratch directory is certain to be removed, and the terminal to be given back.
#include "run/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "calibrate/calibration_file.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/system/machine_memory.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "flash_directory.h"
#include "plan/follow_program.h"
#include "python_package.h"
#include "rivals/policies.h"
#include "run/child_process.h"
#include "run/job/job_server.h"
#include "run/job/ranks.h"
#include "run/outputs.h"
#include "run/preload.h"
#include "run/program_file.h"
#include "run/recording.h"
#include "run/run_notice.h"
#include "run/scratch_directory.h"
#include "run/settings/safety_settings.h"
#include "run/status_line.h"
#include "run/summary.h"
#include "text.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace ebb::cli {
namespace {

constexpr std::uint64_t kBlockBytesMin = 4 * kKiB;
constexpr std::uint64_t kBlockBytesMax = kGiB;
constexpr const char* kAuto = "auto";                       // as a size: what the machine has, as it changes
constexpr const char* kDeviceMemory = "EBB_DEVICE_MEMORY";  // comes first among the settings where it is one
// How often an idle thread of GNU's OpenMP looks for work before it sleeps: 300'000 times if nobody says, milliseconds
// of a core that transfers need. So many last from one operator to the next (docs/cli.md has numbers).
constexpr const char* kSpinCount = "20000";

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::kInvalid, message); }

std::uint64_t parse_option_size(const char* option, const std::string& text) {
  try {
    return parse_size(text);
  } catch (const Error& error) {
    refuse(fmt::format("{}: {}", option, error.what()));
  }
}

std::uint64_t memory_budget(const std::string& text) {
  if (text.empty()) return read_machine_memory().default_budget_bytes();
  if (text == kAuto) {
    const std::uint64_t most = read_machine_memory().most_bytes();  // that it can ever be: tables are made for that
    if (most == 0) refuse("--memory auto: /proc/meminfo does not say how much memory there is; give a size");
    return most;
  }
  const std::uint64_t bytes = parse_option_size("--memory", text);
  if (bytes == 0) refuse("--memory: a budget of nothing cannot hold any tensor; give a size such as 1.5GiB");
  const std::uint64_t most = read_machine_memory().most_bytes();
  if (most == 0 || bytes <= most) return bytes;
  write_all(STDERR_FILENO, fmt::format("ebb: --memory {} is more than there is; it is {}\n", text, format_size(most)));
  return most;
}

std::string flash_variable(const std::string& text) {
  Options options;
  try {
    parse_flash(text.empty() ? default_flash_directory() : text, options);
  } catch (const Error& error) {
    refuse(fmt::format("--flash: {}", error.what()));
  }
  const FlashFacts facts = inspect_flash(options.flash);
  if (!facts.problem.empty()) refuse(facts.problem);
  // Absolute, since the program may change its working directory first.
  return options.flash_bytes == 0 ? facts.directory : fmt::format("{}:{}", facts.directory, options.flash_bytes);
}

// The program may change its working directory before it writes or reads.
std::string absolute_path(const char* option, const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path);
  std::error_code ignored;
  if (!std::filesystem::is_directory(whole.parent_path(), ignored)) {
    refuse(fmt::format("{}: there is no directory '{}'; make it first", option, whole.parent_path().string()));
  }
  return whole.string();
}

bool guide_exists(const RunArguments& arguments) {
  std::error_code ignored;
  return std::filesystem::exists(arguments.guide, ignored);
}

// A guide that is there must be one, and a policy must have a use for it.
void check_guide(const RunArguments& arguments) {
  const std::string policy = arguments.policy.empty() ? Options{}.policy : arguments.policy;
  if (policy != "foresight" && policy != "belady") {
    refuse(fmt::format("--guide: of no use to the policy '{}'; leave it out, or choose foresight", policy));
  }
  if (guide_exists(arguments)) static_cast<void>(read_trace(arguments.guide));
}

// For tensors of a GPU. What that GPU allows is found out by the program, which alone uses it.
void add_device_settings(const RunArguments& arguments, Variables& variables) {
  if (arguments.device_memory.empty()) {
    if (!arguments.device.empty()) refuse("--device: say how much of its memory to use, with --device-memory SIZE");
    return;
  }
  const std::uint64_t bytes = parse_option_size("--device-memory", arguments.device_memory);
  if (bytes == 0) {
    if (!arguments.device.empty()) refuse("--device: with a --device-memory of 0 there is no GPU to choose");
    return;
  }
  if (!arguments.guide.empty()) refuse("--guide: not with --device-memory; leave one of them out");
  if (arguments.memory == kAuto) {
    refuse(
        "--memory auto: with --device-memory it is host memory that is pinned for the GPU, and cannot follow what is "
        "free; give a size");
  }
  variables.emplace_back(kDeviceMemory, std::to_string(bytes));
  if (arguments.device.empty()) return;
  if (arguments.device.find_first_not_of("0123456789") != std::string::npos || arguments.device.size() > 3) {
    refuse(fmt::format("--device: '{}' is not the number of a GPU; give 0 for the first", arguments.device));
  }
  variables.emplace_back("EBB_DEVICE", arguments.device);
}

JobBroker::Share share_of(const RunArguments& arguments) {
  if (arguments.share.empty() || arguments.share == "stalls") return JobBroker::Share::kStalls;
  if (arguments.share == "equal") return JobBroker::Share::kEqual;
  refuse(fmt::format("--share: '{}' is unknown; choose stalls or equal", arguments.share));
}

// What the child is told beyond what it inherits. Sizes are passed on in bytes, so both sides read the same number.
Variables validated_settings(const RunArguments& arguments) {
  Variables variables;
  add_device_settings(arguments, variables);
  // Without a size, how much host memory to pin for a GPU is the runtime's choice.
  const bool for_device = !variables.empty() && arguments.memory.empty();
  variables.emplace_back("EBB_MEMORY", for_device ? "0" : std::to_string(memory_budget(arguments.memory)));
  variables.emplace_back("EBB_FLASH", flash_variable(arguments.flash));
  if (std::getenv("EBB_MAP_FILES") == nullptr) variables.emplace_back("EBB_MAP_FILES", "1");
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    variables.emplace_back("GOMP_SPINCOUNT", kSpinCount);
  }
  if (!arguments.policy.empty()) {
    const auto known = all_policy_names();
    if (std::find(known.begin(), known.end(), arguments.policy) == known.end()) {
      refuse(fmt::format("--policy: '{}' is unknown; choose {}", arguments.policy, fmt::join(known, ", ")));
    }
    variables.emplace_back("EBB_POLICY", arguments.policy);
  }
  add_safety_settings(arguments, variables.front().first == kDeviceMemory, variables);
  if (!arguments.record.empty()) variables.emplace_back("EBB_RECORD", absolute_path("--record", arguments.record));
  add_record_iterations(arguments, variables);
  if (!arguments.guide.empty()) {
    check_guide(arguments);
    variables.emplace_back("EBB_GUIDE", absolute_path("--guide", arguments.guide));
  }
  if (!arguments.block.empty()) {
    const std::uint64_t bytes = parse_option_size("--block", arguments.block);
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (!power_of_two || bytes < kBlockBytesMin || bytes > kBlockBytesMax) {
      refuse(
          fmt::format("--block: {} is not a power of two from 4KiB to 1GiB; 2MiB is one huge page", arguments.block));
    }
    variables.emplace_back("EBB_BLOCK", std::to_string(bytes));
  }
  static_cast<void>(share_of(arguments));
  if (!arguments.managed_min.empty()) {
    const std::uint64_t bytes = parse_option_size("--managed-min", arguments.managed_min);
    variables.emplace_back("EBB_MANAGED_MIN", std::to_string(bytes));
  }
  return variables;
}

// Programs that it starts may well be managed, so it runs.
std::string tell_what_is_not_loaded(const RunArguments& arguments) {
  const std::string why = why_not_loaded(arguments.command.front());
  if (!why.empty() && arguments.strict) {
    refuse(
        fmt::format("--strict: {}, so its memory cannot be managed; use one that is linked dynamically and started "
                    "with your own rights",
                    why));
  }
  if (!why.empty()) {
    write_all(STDERR_FILENO,
              fmt::format("ebb: {}, so it loads no library of Ebbtide's: neither its memory nor the files "
                          "that it maps are in the budget, only those of programs that it starts. Use "
                          "one that is linked dynamically and started with your own rights\n",
                          why));
  }
  return why;
}

Options flash_options(const Variables& variables) {
  const auto found =
      std::find_if(variables.begin(), variables.end(), [](const auto& v) { return v.first == "EBB_FLASH"; });
  Options options;
  parse_flash(found->second, options);
  return options;
}

std::string flash_directory(const Variables& variables) { return flash_options(variables).flash; }

// For all processes together.
std::uint64_t flash_bytes(const Variables& variables) {
  const Options options = flash_options(variables);
  return flash_share(options.flash_bytes, inspect_flash(options.flash).free_bytes);
}

// As it was measured; 0: not known.
double read_bps_of(const std::string& directory) {
  const auto speeds = known_flash(directory);
  return speeds ? speeds->disk.read : 0;
}

// For the status line, and for `ebb top`.
RunFacts facts_of(const RunArguments& arguments, const Variables& variables) {
  RunFacts facts;
  facts.pid = ::getpid();
  facts.command = arguments.command;
  facts.started = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  facts.budget_bytes = parse_size(variables.front().second);
  facts.automatic = arguments.memory == kAuto;
  facts.on_device = variables.front().first == kDeviceMemory;
  if (!facts.on_device) facts.disk_read_bps = read_bps_of(flash_directory(variables));
  return facts;
}

// What of the sums over all processes is known better: at no time they had all the most that each ever had.
void take_job(RunAccount& account, const JobFacts& job, std::size_t processes) {
  const auto used = [](const JobProcess& process) { return process.used_memory; };
  account.managed = std::any_of(job.processes.begin(), job.processes.end(), used);
  account.stats.budget_bytes = job.budget_bytes;
  const std::uint64_t most = job.budget_most_bytes;
  if (processes > 1) {
    account.stats.peak_resident_bytes = std::min(most, std::max(job.peak_resident_bytes, account.stats.resident_bytes));
  }
}

RunAccount make_account(const RunArguments& arguments, const Variables& variables, const ChildOutcome& outcome,
                        const std::string& stats_path, const std::string& claim_path,
                        const std::optional<JobFacts>& job) {
  RunAccount account;
  account.command = arguments.command;
  account.outcome = outcome;
  account.imported_torch = ::access(claim_path.c_str(), F_OK) == 0;
  std::error_code none;
  const std::uintmax_t others = std::filesystem::file_size(claim_path + ".others", none);  // a byte each
  if (!none) account.others = others;
  account.policy = arguments.policy.empty() ? Options{}.policy : arguments.policy;
  account.stats.budget_bytes = parse_size(variables.front().second);
  account.on_device = variables.front().first == kDeviceMemory;
  account.disk = flash_directory(variables);
  account.disk_read_bps = read_bps_of(account.disk);
  account.ranks = read_ranks(stats_path);
  const std::uint64_t share = account.stats.budget_bytes / std::max<std::size_t>(account.ranks.size(), 1);
  account.block_bytes = arguments.block.empty() ? Options::usual_block_bytes(share) : parse_size(arguments.block);
  account.processes = read_others(stats_path);
  account.job = job;
  std::size_t processes = 0;
  if (const auto reading = read_job(stats_path, true, &processes)) {
    account.managed = true;
    account.stats = reading->stats;
    account.policy = reading->policy;
    account.description = reading->description;
    account.step_count = reading->step_count;
    account.steps_fetched_bytes = reading->steps_fetched_bytes;
    account.waits = reading->waits;
    account.page = reading->page;
    if (job && !job->processes.empty()) take_job(account, *job, processes);
    account.step_seconds = account.ranks.empty() ? read_step_seconds(stats_path) : account.ranks[0].step_seconds;
  }
  return account;
}

ChildOutcome run_observed(const RunArguments& arguments, const Variables& variables, const std::string& stats_path,
                          const RunFacts& facts, const JobServer* job) {
  std::optional<StatusLine> status;
  if (!arguments.quiet && draws(STDERR_FILENO)) {
    status.emplace(STDERR_FILENO, stats_path, StatusContext{facts.on_device, job, facts.disk_read_bps});
  }
  return run_child(arguments.command, environment_with(variables), status ? &*status : nullptr);
}

// Makes the guide that is not there yet, by following the program; false if a signal ended that. Without a guide the
// program runs as it would have.
bool provide_guide(const RunArguments& arguments, Variables& variables, int& signal) {
  if (arguments.guide.empty() || guide_exists(arguments)) return true;
  std::string problem;
  try {
    const ScratchDirectory scratch;
    FollowRequest request;
    request.command = arguments.command;
    request.guide = true;
    const FollowOutcome outcome = follow_program(request, scratch);
    signal = outcome.signal;
    if (signal != 0) return false;
    problem = outcome.problem;
    if (problem.empty()) write_trace(read_trace(scratch.file("guide.jsonl")), arguments.guide);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (problem.empty()) return true;
  write_all(STDERR_FILENO, fmt::format("ebb: no guide could be made, the program runs without one: {}\n", problem));
  std::erase_if(variables, [](const auto& variable) { return variable.first == "EBB_GUIDE"; });
  return true;
}

// For the advice in a report: one iteration is recorded, unless the program is to be recorded in some other way.
std::string add_recording(const RunArguments& arguments, const ScratchDirectory& scratch, Variables& variables) {
  if (arguments.report.empty() || !arguments.record.empty()) return arguments.record;
  if (variables.front().first == kDeviceMemory) return "";
  std::string recording = scratch.file("recording.jsonl");
  variables.emplace_back("EBB_RECORD", recording);
  return recording;
}

ChildOutcome run_and_publish(const RunArguments& arguments, Variables variables, const Outputs& outputs) {
  const ScratchDirectory scratch;
  const std::string stats_path = scratch.file(kStatsPage);
  const std::string claim_path = scratch.file("claim");
  variables.emplace_back("EBB_STATS", stats_path);
  variables.emplace_back("EBB_CLAIM", claim_path);
  const std::string recording = add_recording(arguments, scratch, variables);
  const std::string not_loaded = tell_what_is_not_loaded(arguments);
  const RunFacts facts = facts_of(arguments, variables);
  const RunNotice notice(scratch.file(RunNotice::kName), facts);
  std::optional<JobServer> server;
  if (!facts.on_device) {
    const std::string socket = scratch.file("job");
    JobTerms terms;
    terms.budget_bytes = facts.budget_bytes;
    terms.automatic = facts.automatic;
    terms.flash_bytes = flash_bytes(variables);
    terms.share = share_of(arguments);
    terms.strict = arguments.strict;
    terms.on_budget = [&notice](std::uint64_t bytes) { notice.set_budget(bytes); };
    server.emplace(socket, terms);
    variables.emplace_back("EBB_JOB", socket);
  }
  const ChildOutcome outcome = run_observed(arguments, variables, stats_path, facts, server ? &*server : nullptr);
  std::optional<JobFacts> job;
  if (server) job = server->facts();
  if (outcome.start_error.empty()) {
    RunAccount account = make_account(arguments, variables, outcome, stats_path, claim_path, job);
    account.not_loaded = not_loaded;
    publish(account, arguments, outputs, recording);
    if (const std::string less = recording_shortfall(arguments); !less.empty()) {
      write_all(STDERR_FILENO, fmt::format("ebb: {}\n", less));
    }
  } else {
    write_all(STDERR_FILENO, fmt::format("ebb: {}\n", outcome.start_error));
  }
  return outcome;
}

}  // namespace

int run_program(const RunArguments& arguments) {
  if (arguments.command.empty()) {
    refuse("the command to run is missing; write it after the options: ebb run --memory 1.5GiB -- python train.py");
  }
  Variables variables = validated_settings(arguments);
  variables.emplace_back("PYTHONPATH", python_path_with_hook(python_directory()));
  if (const std::string library = calls_library(); !library.empty()) {
    variables.emplace_back("LD_PRELOAD", preload_with(library));
    if (const std::string host = host_library(library); !host.empty()) variables.emplace_back("EBB_HOST", host);
  }
  const Outputs outputs(arguments);
  block_signals();
  int signal = 0;
  if (!provide_guide(arguments, variables, signal)) die_by_signal(signal);
  const ChildOutcome outcome = run_and_publish(arguments, std::move(variables), outputs);
  if (outcome.signal != 0) die_by_signal(outcome.signal);
  return outcome.exit_code;
}

}  // namespace ebb::cli
