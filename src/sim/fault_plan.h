// FaultPlan: what goes wrong in the simulated world, and how often: only what Ebbtide promises to survive, or to report
// loudly, so that every other failure of a run is a bug. Rates are ratios of integers: the same on every machine.
//
// NthFault fails exactly one port call, the n-th, and is shared by all ports: counting n up until nothing fires walks
// through every error path there is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/rng.h"

namespace ebb {

struct Ratio {
  std::uint32_t numerator = 0;
  std::uint32_t denominator = 1;
  bool fires(Rng& rng) const { return numerator > 0 && rng.chance(numerator, denominator); }
  friend constexpr bool operator==(const Ratio&, const Ratio&) = default;
};

enum class Fault : std::uint8_t {
  // Flash. A fault that passes never hits one extent more often in a row than the engine tries again.
  kReadError,          // passes
  kReadErrorForever,   // the extent cannot be read from now on
  kWriteError,         // passes
  kWriteErrorForever,  // the extent cannot be written from now on
  kNoSpace,            // a write into space that was reserved is refused all the same
  kCorruptRead,        // passes: the device holds the right bytes and delivers others
  kStaleRead,          // passes: it delivers what the extent held before
  kCorruptAtRest,      // the device holds other bytes than were written
  kBitRot,             // bits of some extent change while it lies there
  kLostWrite,          // acknowledged, and nothing has been written
  kMisdirectedWrite,   // acknowledged, and some other extent has it
  kTornWrite,          // acknowledged, and only the first half has been written
  kShortTransfer,      // half of it is there long before the rest
  kSlow,               // a request takes up to a hundred times as long: others overtake it
  kStall,              // the device stands still, for up to seconds
  // Memory.
  kBusy,         // detach: the block's pages are pinned just now
  kCreateError,  // the system has no memory for a frame just now
};
inline constexpr std::size_t kFaults = 17;
inline constexpr std::array<std::string_view, kFaults> kFaultNames{"read_error",
                                                                   "read_error_forever",
                                                                   "write_error",
                                                                   "write_error_forever",
                                                                   "no_space",
                                                                   "corrupt_read",
                                                                   "stale_read",
                                                                   "corrupt_at_rest",
                                                                   "bit_rot",
                                                                   "lost_write",
                                                                   "misdirected_write",
                                                                   "torn_write",
                                                                   "short_transfer",
                                                                   "slow",
                                                                   "stall",
                                                                   "busy",
                                                                   "create_error"};

constexpr std::string_view name(Fault fault) { return kFaultNames[static_cast<std::size_t>(fault)]; }

// Whether it takes away the only copy of some content.
constexpr bool loses(Fault fault) {
  return fault == Fault::kReadErrorForever || (fault >= Fault::kCorruptAtRest && fault <= Fault::kTornWrite);
}

// Something for each kind of fault.
template <typename T>
class ByFault {
 public:
  T& operator[](Fault fault) { return values_[static_cast<std::size_t>(fault)]; }
  const T& operator[](Fault fault) const { return values_[static_cast<std::size_t>(fault)]; }
  friend constexpr bool operator==(const ByFault&, const ByFault&) = default;

 private:
  std::array<T, kFaults> values_{};
};

using FaultCounts = ByFault<std::uint64_t>;

struct FaultPlan : ByFault<Ratio> {
  std::uint32_t extents_available = std::numeric_limits<std::uint32_t>::max();  // reserve() beyond: no space
  std::uint32_t frames_available = std::numeric_limits<std::uint32_t>::max();

  friend constexpr bool operator==(const FaultPlan&, const FaultPlan&) = default;

  bool may_lose() const {
    for (std::size_t i = 0; i < kFaults; ++i) {
      if (loses(Fault(i)) && (*this)[Fault(i)].numerator > 0) return true;
    }
    return false;
  }
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
