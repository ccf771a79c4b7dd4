// Scenario: one simulated run as data: the machine, the policy, how long, and what goes wrong. The files are in
// tests/scenario; seed and scenario together are a bug report.
//
//   { "seed": 7, "runs": 20, "steps": 400, "frames": 16, "extents": 64, "policy": "window",
//     "faults": { "write_error": "1/20", "busy": "1/4", "extents_available": 100 } }
//
// With "operations" it is one program and nothing else, as the fuzzer leaves it when it has found a failure and made it
// short: [["allocate", 1730], ["read", 99], ...], each with its dice (fuzz/fuzz_operation.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/fault_plan.h"
#include "sim/fuzz/fuzz_operation.h"

namespace ebb {

struct Scenario {
  std::string name;
  std::uint64_t seed = 1;
  std::uint32_t runs = 1;
  std::uint32_t steps = 200;
  std::uint32_t frames = 16;
  std::uint32_t extents = 64;
  std::uint32_t host_extents = 0;
  std::string policy = "window";
  std::uint32_t pinned_percent = 0;  // of the operations: the program pins a block that it uses
  // Nothing takes away what was promised: no small allocations, no snapshots. Then no access may starve.
  bool steady = false;
  FaultPlan faults;
  std::vector<FuzzOperation> operations;  // none: as many as `steps`, drawn from the seed

  // Keys that are left out keep their defaults; an unknown one is refused. Throws Error(kInvalid).
  static Scenario parse(const std::string& text, const std::string& name);
  static Scenario load(const std::string& path);
  // What parse() reads: one line, or one an operation.
  std::string to_json() const;
};

}  // namespace ebb
