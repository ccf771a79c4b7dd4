// Small traces and machines for the tests of the bound.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/rng.h"
#include "plan/machine.h"
#include "plan/test/trace_lines.h"

namespace ebb {

inline constexpr std::uint64_t kGB = 1000 * 1000 * 1000;
inline constexpr std::uint64_t kSecond = 1000 * 1000 * 1000;

inline Machine machine(std::uint64_t device_gb, std::uint64_t host_gb, double link, double flash_write = 0,
                       double flash_read = 0) {
  Machine result;
  result.device_bytes = device_gb * kGB;
  result.host_bytes = host_gb * kGB;
  result.device_link_bps = link * 1e9;
  result.flash_write_bps = flash_write * 1e9;
  result.flash_read_bps = flash_read * 1e9;
  return result;
}

inline Trace random_trace(Rng& rng) {
  Trace trace;
  const auto tensors = static_cast<std::uint32_t>(2 + rng.below(9));
  for (std::uint32_t i = 0; i < tensors; ++i) add_tensor(trace, (1 + rng.below(9)) * kGB, rng.chance(1, 3));
  for (std::uint64_t left = 3 + rng.below(15); left > 0; --left) {
    std::set<std::uint32_t> reads, writes;
    for (std::uint64_t i = rng.below(3); i > 0; --i) reads.insert(static_cast<std::uint32_t>(rng.below(tensors)));
    for (std::uint64_t i = rng.below(3); i > 0; --i) writes.insert(static_cast<std::uint32_t>(rng.below(tensors)));
    add_launch(trace, rng.below(3 * kSecond), {reads.begin(), reads.end()}, {writes.begin(), writes.end()});
  }
  return trace;
}

// Some tensors live on after their last use.
inline void free_later(Trace& trace, Rng& rng) {
  std::vector<std::uint32_t> last(trace.tensors.size(), 0);
  for (std::uint32_t k = 0; k < trace.launches.size(); ++k) {
    for (const std::uint32_t tensor : trace.touched(trace.launches[k])) last[tensor] = k;
  }
  for (Trace::Tensor& tensor : trace.tensors) {
    const std::uint64_t left = trace.launches.size() - last[tensor.id];
    if (!tensor.persistent && rng.chance(2, 3)) {
      tensor.freed_before = last[tensor.id] + 1 + static_cast<std::uint32_t>(rng.below(left));
    }
  }
}

}  // namespace ebb
