// FaultPlan: what goes wrong in the simulated world, and how often: only what Ebbtide promises to survive, or to report
// loudly, so that every other failure of a run is a bug. Rates are ratios of integers: the same on every machine.
//
// NthFault fails exactly one port call, the n-th, and is shared by all ports: counting n up until nothing fires walks
// through every error path there is.
#pragma once

#include <cstdint>
#include <limits>

#include "base/rng.h"

namespace ebb {

struct Ratio {
  std::uint32_t numerator = 0;
  std::uint32_t denominator = 1;
  bool fires(Rng& rng) const { return numerator > 0 && rng.chance(numerator, denominator); }
  friend constexpr bool operator==(const Ratio&, const Ratio&) = default;
};

struct FaultPlan {
  // Flash. A fault that passes never hits one extent more often in a row than the engine tries again.
  Ratio read_error;           // passes
  Ratio read_error_forever;   // the extent cannot be read from now on
  Ratio write_error;          // passes
  Ratio write_error_forever;  // the extent cannot be written from now on
  Ratio corrupt_read;         // passes: the device holds the right bytes and delivers others
  Ratio corrupt_at_rest;      // the device holds other bytes than were written
  Ratio no_space;             // a write into space that was reserved is refused all the same
  std::uint32_t extents_available = std::numeric_limits<std::uint32_t>::max();  // reserve() beyond: no space
  // Memory.
  Ratio busy;          // detach: the block's pages are pinned just now
  Ratio create_error;  // the system has no memory for a frame just now
  std::uint32_t frames_available = std::numeric_limits<std::uint32_t>::max();

  friend constexpr bool operator==(const FaultPlan&, const FaultPlan&) = default;

  // Whether data may be lost at all.
  bool may_lose() const { return read_error_forever.numerator > 0 || corrupt_at_rest.numerator > 0; }
};

class NthFault {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // The call number `n`, counted from 0, fails.
  explicit NthFault(std::uint64_t n = kNever) : n_(n) {}
  bool fires() { return calls_++ == n_; }
  bool fired() const { return calls_ > n_; }

 private:
  std::uint64_t n_;
  std::uint64_t calls_ = 0;
};

}  // namespace ebb
