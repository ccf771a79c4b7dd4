// See follow_program.h.
#include "plan/follow_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

#include "calibrate/calibrate_command.h"
#include "calibrate/redirection.h"
#include "drivers/linux/system/system_files.h"
#include "python_package.h"
#include "run/child_process.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailedCode = 1;
constexpr std::size_t kTailLines = 12;

std::vector<std::string> environment_for(const ScratchDirectory& scratch, const FollowRequest& request, int terminal) {
  Variables variables{{"EBB_CLAIM", scratch.file("claim")},
                      {"EBB_WHATIF", std::filesystem::path(scratch.file("claim")).parent_path().string()},
                      {"EBB_WHATIF_STEPS", std::to_string(request.steps)},
                      {"EBB_WHATIF_GUIDE", request.guide ? "1" : ""},
                      {"EBB_WHATIF_PROGRESS", terminal >= 0 ? std::to_string(terminal) : ""}};
  const std::string directory = python_directory();
  variables.emplace_back("PYTHONPATH", directory + "/ebbtide/whatif/hook:" + python_path_with_hook(directory));
  return environment_with(variables);
}

// Why there is no trace, in one message, and what the program said last, where that may tell more.
std::string failure_of(const ScratchDirectory& scratch, const ChildOutcome& outcome, const Json& report) {
  const bool reported = report.is_object() && report.contains("error") && report["error"].is_string();
  const bool claimed = ::access(scratch.file("claim").c_str(), F_OK) == 0;
  const std::string problem =
      reported ? report["error"].get<std::string>()
               : fmt::format("{} (exit code {})",
                             claimed ? "the program ended before a step was over"
                                     : "the program never imported torch, or ran Python with -I, -E or -S, which skip "
                                       "Ebbtide's hook",
                             outcome.exit_code);
  if (reported && !report.value("said", false)) return problem;
  std::string tail = tail_of(scratch.file("output"), kTailLines);
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail.empty() ? problem : fmt::format("{}; it said last:\n{}", problem, tail);
}

}  // namespace

FollowOutcome follow_program(const FollowRequest& request, const ScratchDirectory& scratch) {
  ChildOutcome child;
  {
    const Redirection redirection(scratch.file("output"), Redirection::What::kOutputAndErrors);
    show_progress(redirection.terminal(), "following the program without memory or compute");
    child = run_child(request.command, environment_for(scratch, request, redirection.terminal()), nullptr);
    show_progress(redirection.terminal(), "");
  }
  FollowOutcome outcome;
  outcome.exit_code = child.exit_code;
  outcome.signal = child.signal;
  if (child.signal != 0) return outcome;
  if (!child.start_error.empty()) {
    outcome.problem = child.start_error;
    return outcome;
  }
  const auto text = read_text(scratch.file("report.json"));
  outcome.report = text ? Json::parse(*text, nullptr, false) : Json();
  if (outcome.report.is_object() && !outcome.report.contains("error") && child.exit_code == 0) return outcome;
  outcome.problem = failure_of(scratch, child, outcome.report);
  outcome.exit_code = kFailedCode;
  return outcome;
}

}  // namespace ebb::cli
