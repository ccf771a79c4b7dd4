// StallClock: wall time in which at least one thread of the program waits for memory. Overlapping waits count once.
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
  void end(std::uint64_t now_ns) {
    if (--waiting_ == 0) total_ns_ += now_ns - since_ns_;
  }
  std::uint64_t total_ns(std::uint64_t now_ns) const { return total_ns_ + (waiting_ > 0 ? now_ns - since_ns_ : 0); }

 private:
  std::uint32_t waiting_ = 0;
  std::uint64_t since_ns_ = 0;
  std::uint64_t total_ns_ = 0;
};

}  // namespace ebb
