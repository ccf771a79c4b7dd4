// Check: one thing that `ebb doctor` found out, and the functions that find out. Each runs in a process of its own
// (bounded_checks.h), so it may block, crash or be killed by a seccomp filter without harm. None changes a setting.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ebb::cli {

enum class Verdict { kGood, kWarning, kBlocking };

struct Check {
  std::string id;     // stable, for programs
  std::string title;  // for people
  Verdict verdict = Verdict::kGood;
  std::string found;
  std::string remedy;  // what to do; empty when there is nothing to do
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
};

const char* name(Verdict verdict);  // "good", "warning", "blocking"
nlohmann::ordered_json to_json(const Check& check);
Check check_from_json(const nlohmann::ordered_json& json);

// checks_kernel.cc
Check check_kernel();
Check check_userfaultfd();
Check check_system_calls();
Check check_frame_moves();
Check check_huge_pages();
Check check_map_count();
Check check_locked_memory();

// checks_machine.cc
Check check_memory();
Check check_swap();
Check check_processor();

// checks_opencl.cc
Check check_opencl();

// checks_cuda.cc
Check check_cuda();
Check check_pinned_memory();

// checks_flash.cc
Check check_io_uring();
std::vector<Check> check_flash(const std::string& directory);
Check check_flash_speed(const std::string& directory);

// checks_encryption.cc
Check check_encryption();

// checks_trial.cc
Check check_trial(const std::string& directory);

// checks_python.cc: one for each interpreter that could be meant.
std::vector<std::string> candidate_interpreters();
Check check_interpreter(const std::string& interpreter);

}  // namespace ebb::cli
