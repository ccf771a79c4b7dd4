// StallClock: wall time in which at least one thread of the program waits for memory. Overlapping waits count once:
// what take() and end() return adds up to the total.
//
// Under the runtime's lock; the caller passes the time.
#pragma once

#include <cstdint>

namespace ebb {

class StallClock {
 public:
  void begin(std::uint64_t now_ns) {
    if (waiting_++ == 0) since_ns_ = now_ns;
  }
  // While somebody waits: the time since it was last taken, or the waiting began, for the caller to charge.
  std::uint64_t take(std::uint64_t now_ns) {
    const std::uint64_t ns = now_ns - since_ns_;
    since_ns_ = now_ns;
    total_ns_ += ns;
    return ns;
  }
  std::uint64_t end(std::uint64_t now_ns) {
    const std::uint64_t ns = take(now_ns);
    --waiting_;
    return ns;
  }
  std::uint64_t total_ns(std::uint64_t now_ns) const { return total_ns_ + (waiting_ > 0 ? now_ns - since_ns_ : 0); }

 private:
  std::uint32_t waiting_ = 0;
  std::uint64_t since_ns_ = 0;
  std::uint64_t total_ns_ = 0;
};

}  // namespace ebb
