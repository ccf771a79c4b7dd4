// Ticks: the finest clock of the machine, for durations of tens of nanoseconds. What reading it takes is subtracted.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ebb::bench {

class Ticks {
 public:
#if defined(__x86_64__)
  static std::uint64_t now() {
    _mm_lfence();  // nothing before it is still going on, nothing after it has begun
    const std::uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
  }
#else
  static std::uint64_t now() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
#endif
  static std::uint64_t since(std::uint64_t from) {
    const std::uint64_t ticks = now() - from;
    return ticks > overhead_ ? ticks - overhead_ : 0;
  }
  static double to_ns(std::uint64_t ticks) { return static_cast<double>(ticks) * ns_; }

  static void calibrate() {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t from = now();
    std::vector<std::uint64_t> empty(10001);
    for (std::uint64_t& each : empty) {
      const std::uint64_t before = now();
      each = now() - before;
    }
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(50)) {
    }
    const std::uint64_t ticks = now() - from;
    ns_ = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
          static_cast<double>(ticks);
    std::nth_element(empty.begin(), empty.begin() + 5000, empty.end());
    overhead_ = empty[5000];
  }

 private:
  static inline double ns_ = 1;
  static inline std::uint64_t overhead_ = 0;
};

}  // namespace ebb::bench
