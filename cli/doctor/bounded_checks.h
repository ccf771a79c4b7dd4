// Runs a check in a child process with a time limit, and turns whatever becomes of that process into checks. Main
// thread; one at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/check.h"

namespace ebb::cli {

struct CheckTask {
  std::string id;
  std::string title;
  std::chrono::seconds limit{5};
  Verdict when_lost = Verdict::kWarning;  // the verdict when no answer comes
  std::function<std::vector<Check>()> body;
};

// Calls `waiting` about four times a second with the time passed so far.
std::vector<Check> run_bounded(const CheckTask& task, const std::function<void(std::chrono::seconds)>& waiting);

}  // namespace ebb::cli
