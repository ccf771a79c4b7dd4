// See doctor_command.h.
#include "doctor/doctor_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/bounded_checks.h"
#include "doctor/check.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "flash_directory.h"
#include "json_text.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kQuickLimit{5};
constexpr std::chrono::seconds kDriverLimit{20};   // loading a driver may wake a GPU, or read a compiler from disk
constexpr std::chrono::seconds kFlashLimit{15};    // a network file system may think for a while
constexpr std::chrono::seconds kMeasureLimit{40};  // both directions end by themselves well before
constexpr std::chrono::seconds kTrialLimit{30};
constexpr std::chrono::seconds kPythonLimit{90};  // a first import of torch reads gigabytes from a cold disk

CheckTask single(const char* id, const char* title, Check (*body)()) {
  return CheckTask{id, title, kQuickLimit, Verdict::kWarning, [body] { return std::vector<Check>{body()}; }};
}

std::vector<CheckTask> list_tasks(const std::string& flash, bool quick) {
  std::vector<CheckTask> tasks{single("kernel", "kernel", check_kernel),
                               single("userfaultfd", "userfaultfd", check_userfaultfd),
                               single("system_calls", "system calls", check_system_calls),
                               single("uffdio_move", "UFFDIO_MOVE", check_frame_moves),
                               single("huge_pages", "huge pages", check_huge_pages),
                               single("max_map_count", "memory mappings", check_map_count),
                               single("memory", "memory", check_memory),
                               single("swap", "swap", check_swap),
                               single("memlock", "locked memory", check_locked_memory),
                               single("processor", "processor", check_processor),
                               single("io_uring", "io_uring", check_io_uring)};
  const auto driver = [&](const char* id, const char* title, Check (*body)()) {
    tasks.push_back(
        CheckTask{id, title, kDriverLimit, Verdict::kWarning, [body] { return std::vector<Check>{body()}; }});
  };
  driver("opencl", "OpenCL", check_opencl);
  driver("cuda", "CUDA", check_cuda);
  driver("pinned_memory", "pinned memory", check_pinned_memory);
  tasks.push_back(CheckTask{"flash_directory", "flash directory", kFlashLimit, Verdict::kBlocking,
                            [flash] { return check_flash(flash); }});
  tasks.push_back(single("encryption", "flash encryption", check_encryption));
  const auto where_usable = [flash](Check (*body)(const std::string&)) {
    return [flash, body] {
      const bool usable = inspect_flash(flash).problem.empty();
      return usable ? std::vector<Check>{body(flash)} : std::vector<Check>{};
    };
  };
  if (!quick) {
    tasks.push_back(
        CheckTask{"flash_speed", "flash speed", kMeasureLimit, Verdict::kWarning, where_usable(check_flash_speed)});
  }
  tasks.push_back(CheckTask{"trial", "trial", kTrialLimit, Verdict::kBlocking, where_usable(check_trial)});
  for (const std::string& interpreter : candidate_interpreters()) {
    tasks.push_back(CheckTask{"python", "Python", kPythonLimit, Verdict::kBlocking,
                              [interpreter] { return std::vector<Check>{check_interpreter(interpreter)}; }});
  }
  return tasks;
}

// Only one Python has to work; the others are then no obstacle.
void settle_interpreters(std::vector<Check>& checks) {
  const auto is_python = [](const Check& check) { return check.id == "python"; };
  if (std::none_of(checks.begin(), checks.end(), is_python)) {
    checks.push_back(Check{"python", "Python", Verdict::kBlocking, "no python3 on PATH",
                           "install Python 3 and torch, or name the interpreter in EBB_PYTHON", Json::object()});
  }
  const bool one_works = std::any_of(checks.begin(), checks.end(), [&](const Check& check) {
    return is_python(check) && check.verdict == Verdict::kGood;
  });
  for (Check& check : checks) {
    if (one_works && is_python(check) && check.verdict == Verdict::kBlocking) check.verdict = Verdict::kWarning;
  }
}

std::vector<Check> run_all(const std::vector<CheckTask>& tasks, bool progress) {
  std::vector<Check> checks;
  for (const CheckTask& task : tasks) {
    const auto waiting = [&](std::chrono::seconds passed) {
      if (!progress) return;
      const std::string time = passed.count() > 0 ? fmt::format(" ({} s)", passed.count()) : "";
      write_all(STDERR_FILENO, fmt::format("\r\033[Kexamining {}{}", task.title, time));
    };
    for (Check& check : run_bounded(task, waiting)) checks.push_back(std::move(check));
  }
  if (progress) write_all(STDERR_FILENO, "\r\033[K");
  settle_interpreters(checks);
  return checks;
}

std::string mark(Verdict verdict, bool colour) {
  struct Mark {
    const char* text;
    const char* colour;
  };
  static constexpr Mark kMarks[] = {{"✓", "\033[32m"}, {"!", "\033[33m"}, {"✗", "\033[31m"}};
  const Mark& chosen = kMarks[static_cast<int>(verdict)];
  return colour ? fmt::format("{}{}\033[0m", chosen.colour, chosen.text) : chosen.text;
}

std::string table_of(const std::vector<Check>& checks, bool can_run, bool colour) {
  std::string text;
  for (const Check& check : checks) {
    text += fmt::format("{} {:<17} {}\n", mark(check.verdict, colour), check.title, check.found);
    if (!check.remedy.empty()) text += fmt::format("  {:<17} → {}\n", "", check.remedy);
  }
  text += can_run ? "\n`ebb run` can work on this machine.\n"
                  : "\n`ebb run` cannot work yet: see what is marked ✗ above.\n";
  return text;
}

}  // namespace

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood: return "good";
    case Verdict::kWarning: return "warning";
    case Verdict::kBlocking: return "blocking";
  }
  return "";
}

Json to_json(const Check& check) {
  return Json{{"id", check.id},       {"title", check.title},   {"verdict", name(check.verdict)},
              {"found", check.found}, {"remedy", check.remedy}, {"details", check.details}};
}

Check check_from_json(const Json& json) {
  Check check{json.at("id"), json.at("title"), Verdict::kGood, json.at("found"), json.at("remedy"), json.at("details")};
  for (const Verdict verdict : {Verdict::kWarning, Verdict::kBlocking}) {
    if (json.at("verdict") == name(verdict)) check.verdict = verdict;
  }
  return check;
}

int examine_machine(const DoctorArguments& arguments) {
  Options options;
  parse_flash(arguments.flash.empty() ? default_flash_directory() : arguments.flash, options);
  const bool progress = ::isatty(STDERR_FILENO) == 1;
  const std::vector<Check> checks = run_all(list_tasks(options.flash, arguments.quick), progress);
  const bool can_run = std::none_of(checks.begin(), checks.end(),
                                    [](const Check& check) { return check.verdict == Verdict::kBlocking; });
  std::string text;
  if (arguments.json) {
    Json list = Json::array();
    for (const Check& check : checks) list.push_back(to_json(check));
    text = json_text({{"can_run", can_run}, {"checks", std::move(list)}});
  } else {
    text = table_of(checks, can_run, wants_colour(STDOUT_FILENO));
  }
  if (!write_all(STDOUT_FILENO, text)) throw Error(Status::kIoError, "the findings cannot be written to stdout");
  return can_run ? 0 : 1;
}

}  // namespace ebb::cli
