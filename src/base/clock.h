// The monotonic clock, for what lies outside the core: the core is told the time, or does without it.
#pragma once

#include <chrono>
#include <cstdint>

namespace ebb {

inline std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace ebb
