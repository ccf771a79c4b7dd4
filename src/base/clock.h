// The monotonic clock, and waiting by it, for what lies outside the core, which is told the time or does without it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace ebb {

inline std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// Waits for what tells nobody when it is over: until look() says so, asked less and less often. False: `limit` is over.
template <typename Look>
bool look_until_over(std::chrono::nanoseconds limit, Look look) {
  std::chrono::microseconds pause{5};
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!look()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(500));
  }
  return true;
}

}  // namespace ebb
