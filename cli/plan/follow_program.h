// follow_program: runs a program with fake tensors (python/ebbtide/whatif) until it has shown what its steps
// do. What it prints is kept aside: its numbers are made up, and only if it fails do its last lines tell why. Main
// thread, after block_signals().
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/scratch_directory.h"

namespace ebb::cli {

struct FollowRequest {
  std::vector<std::string> command;
  std::uint32_t steps = 2;  // in the first, optimizers make their state
  bool guide = false;       // leave guide.jsonl instead: the steps from the program's beginning
};

struct FollowOutcome {
  int exit_code = 0;    // what `ebb plan` exits with: 1 if the program could not be followed
  int signal = 0;       // that ended the program; 0: none
  std::string problem;  // why there is no trace, for people; empty: there is one, or a signal ended the program
  nlohmann::ordered_json report;
};

// Leaves trace.jsonl in `scratch`.
FollowOutcome follow_program(const FollowRequest& request, const ScratchDirectory& scratch);

}  // namespace ebb::cli
