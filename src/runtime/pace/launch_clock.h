// LaunchClock: how long the launch announced last ran: until the next one, or the end of the iteration, without the
// time in which somebody waited for memory meanwhile.
//
// Under the runtime's lock; the caller passes the time, and how long has been waited until then (StallClock).
#pragma once

#include <cstdint>

namespace ebb {

class LaunchClock {
 public:
  // A launch has all its blocks, or as many as it gets before it begins.
  void begin(std::uint64_t now_ns, std::uint64_t stalled_ns) {
    running_ = true;
    since_ns_ = now_ns;
    stalled_ns_ = stalled_ns;
  }
  // What it has run for; 0 if none does.
  std::uint64_t end(std::uint64_t now_ns, std::uint64_t stalled_ns) {
    if (!running_) return 0;
    running_ = false;
    const std::uint64_t start_ns = since_ns_ + (stalled_ns - stalled_ns_);
    return now_ns > start_ns ? now_ns - start_ns : 0;
  }

 private:
  bool running_ = false;
  std::uint64_t since_ns_ = 0;
  std::uint64_t stalled_ns_ = 0;
};

}  // namespace ebb
