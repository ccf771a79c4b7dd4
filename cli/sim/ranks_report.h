// What a simulation of ranks found, as a table for people and as JSON for programs. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "plan/trace.h"
#include "sim/ring.h"

namespace ebb::cli {

struct RanksRow {
  std::uint32_t ranks = 1;
  std::uint32_t sharing = 1;  // of them one drive
  std::uint64_t step_ns = 0;
  std::uint64_t compute_ns = 0;
  std::uint64_t drive_ns = 0;    // that the drive needs at least for the bytes of those that share it
  std::uint64_t network_ns = 0;  // that the network is busy
  std::uint64_t waited_ns = 0;   // of it, no kernel runs beside
};

struct RanksFindings {
  const Trace& trace;
  std::string file;
  std::string policy;
  Machine machine;
  Ring ring;  // but for the number of ranks
  std::uint32_t per_drive = 1;
  std::uint64_t gradient_bytes = 0;
  RanksRow alone;
  std::vector<RanksRow> rows;
};

std::string to_table(const RanksFindings& findings, bool colour);
std::string to_json(const RanksFindings& findings);

}  // namespace ebb::cli
