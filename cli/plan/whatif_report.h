// What `ebb plan -- COMMAND` found out, and how it is told: a table for people, one JSON object for programs. Pure
// functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "plan/trace.h"
#include "plan/vitality.h"

namespace ebb::cli {

// One budget and what the simulation of it gave.
struct WhatIfRow {
  std::string label;  // "1/4"; empty: the user named it
  std::uint64_t memory_bytes = 0;
  std::string problem;  // why there is no result; empty: there is
  std::uint64_t step_ns = 0;
  std::uint64_t compute_ns = 0;
  std::uint64_t read_ns = 0;  // flash was busy reading for so long
  std::uint64_t write_ns = 0;
  std::uint64_t flash_ns = 0;  // what both directions take of what they share; 0: nothing
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
};

struct WhatIfFindings {
  const Trace& trace;
  const Vitality& vitality;
  nlohmann::ordered_json program;  // what the process with fake tensors reported
  Machine machine;
  std::string flash_source;  // where the speed of flash comes from
  std::uint64_t available_bytes = 0;
  std::uint32_t ranks =
      1;  // on this machine; each is as the one that was followed, and a row's memory is theirs together
  std::vector<WhatIfRow> rows;
};

std::string to_table(const WhatIfFindings& findings, bool colour);
nlohmann::ordered_json to_json(const WhatIfFindings& findings);

}  // namespace ebb::cli
