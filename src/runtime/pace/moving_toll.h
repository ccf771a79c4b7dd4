// MovingToll: what launches lose for each block that is moved beside them, however fast the lanes are: whoever moves
// takes a processor's time for it (checksums, mostly), and where the program keeps all processors busy it is theirs. An
// operator whose threads share its work evenly waits for the one that was interrupted, so all of that time counts.
// Plans that move less are preferred accordingly.
//
// Owned by the runtime, under its lock; told at the end of an iteration.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebb {

class MovingToll {
 public:
  // Since whenever; nanoseconds.
  struct Reading {
    std::uint64_t now = 0, stalled = 0;         // of the clock; of it: somebody waited for memory
    std::uint64_t all_threads = 0, moving = 0;  // of processors; of it: the mover's
    std::uint64_t blocks = 0;                   // moved, either way
  };
  MovingToll(std::uint32_t processors, const Reading& begin) : processors_(processors), before_(begin) {}

  void observe(const Reading& reading) {
    const std::uint64_t blocks = reading.blocks - before_.blocks;
    const std::uint64_t past = reading.now - before_.now, stalled = reading.stalled - before_.stalled;
    if (blocks < kBlocksMin || past <= stalled) return;
    const auto moving = static_cast<double>(reading.moving - before_.moving);
    const double program = static_cast<double>(reading.all_threads - before_.all_threads) - moving;
    const double busy = program / static_cast<double>(past - stalled);  // processors, while nobody waits
    each_ns_ = moving / static_cast<double>(blocks) * std::clamp(busy + 1 - processors_, 0.0, 1.0);
    before_ = reading;
  }
  double each_ns() const { return each_ns_; }

 private:
  static constexpr std::uint64_t kBlocksMin = 64;
  const double processors_;
  double each_ns_ = 0;
  Reading before_;
};

}  // namespace ebb
