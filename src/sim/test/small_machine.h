// A machine of a few MiB for tests, and what runs on it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rivals/policies.h"
#include "sim/trace_simulator.h"
#include "trace_builder.h"

namespace ebb {

inline constexpr std::uint64_t kBlock = 64 << 10;
inline constexpr std::uint32_t kFrames = 128;
inline constexpr std::uint64_t kBlockNs = 1000;  // over the device link
inline constexpr std::uint64_t kNs = 10'000;     // a launch

// A link that takes 1 µs a block, host memory for everything, and flash at a quarter of that speed.
inline TraceSimulator::Options machine() {
  TraceSimulator::Options options;
  options.block_bytes = kBlock;
  options.machine.device_bytes = kFrames * kBlock;
  options.machine.host_bytes = 16 * options.machine.device_bytes;
  options.machine.device_link_bps = static_cast<double>(kBlock) * 1e9 / kBlockNs;
  options.machine.flash_read_bps = options.machine.flash_write_bps = options.machine.device_link_bps / 4;
  return options;
}

// `count` persistent tensors of `blocks` blocks, one after the other used by a launch.
inline Trace round_robin(std::uint32_t count, std::uint32_t blocks, bool written) {
  TraceBuilder builder;
  for (std::uint32_t i = 0; i < count; ++i) builder.tensor(blocks * kBlock, true);
  for (std::uint32_t i = 0; i < count; ++i) {
    builder.launch(kNs, {i}, written ? std::vector<std::uint32_t>{i} : std::vector<std::uint32_t>{});
  }
  return builder.take();
}

inline std::vector<TraceSimulator::Iteration> run(const Trace& trace, std::string_view policy,
                                                  const TraceSimulator::Options& options) {
  return TraceSimulator(trace, make_any_policy(policy), options).run();
}

}  // namespace ebb
