// See whatif_simulation.h.
#include "plan/whatif_simulation.h"

#include <fmt/format.h>

#include <cstdint>

#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "plan/policy.h"
#include "sim/trace_simulator.h"

namespace ebb::cli {
namespace {

constexpr std::uint32_t kIterations = 5;  // the third still has what the first plans left behind

}  // namespace

WhatIfRow simulate(const Trace& trace, const Machine& machine, WhatIfRow row) {
  TraceSimulator::Options options;
  options.machine = machine;
  options.machine.device_bytes = row.memory_bytes;
  options.iterations = kIterations;
  options.block_bytes = Options::usual_block_bytes(row.memory_bytes);
  if (row.memory_bytes / options.block_bytes < TraceSimulator::kDeviceBlocksMin) {
    row.problem = fmt::format("less than `ebb run` can work in: {}",
                              format_size(TraceSimulator::kDeviceBlocksMin * options.block_bytes));
    return row;
  }
  try {
    const auto steps = TraceSimulator(trace, make_policy("foresight"), options).run();
    const auto& last = steps.back();
    row.step_ns = last.ns;
    row.compute_ns = last.ideal_ns;
    const LaneQueue::LaneUse& in = last.lanes[static_cast<std::size_t>(Lane::kFlashIn)];
    const LaneQueue::LaneUse& out = last.lanes[static_cast<std::size_t>(Lane::kFlashOut)];
    row.read_ns = in.busy_ns;
    row.read_bytes = in.bytes;
    row.write_ns = out.busy_ns;
    row.write_bytes = out.bytes;
    if (machine.flash_total_bps > 0) {
      row.flash_ns =
          static_cast<std::uint64_t>(1e9 * static_cast<double>(in.bytes + out.bytes) / machine.flash_total_bps);
    }
  } catch (const Error& error) {
    row.problem = error.what();
  }
  return row;
}

}  // namespace ebb::cli
