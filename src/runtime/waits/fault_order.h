// FaultOrder: whether a program waits most of the time for touches of absent memory in no order, as a sort or a shuffle
// makes them. Each brings a whole block for the sake of a few bytes, and smaller blocks serve.
//
// Owned by the runtime, under its lock.
#pragma once

#include <cstdint>
#include <utility>

#include "ebb/stats.h"

namespace ebb {

class FaultOrder {
 public:
  static constexpr std::uint64_t kWindowNs = 10'000'000'000;

  // So many touches (Stats::faults) have been, so many of them scattered, and so much time has been waited in all.
  // True: for a while it was most of the time, and most of these touches were scattered.
  bool note(std::uint64_t touches, std::uint64_t scattered, std::uint64_t now_ns, std::uint64_t waited_ns) {
    if (now_ns - begin_.ns < kWindowNs) return false;
    const Moment begin = std::exchange(begin_, {now_ns, waited_ns, touches, scattered});
    const std::uint64_t more = scattered - begin.scattered;
    return 2 * (waited_ns - begin.waited_ns) >= now_ns - begin.ns && more >= Stats::kScatteredMin &&
           2 * more >= touches - begin.touches;
  }

 private:
  struct Moment {
    std::uint64_t ns = 0, waited_ns = 0, touches = 0, scattered = 0;
  };
  Moment begin_;
};

}  // namespace ebb
