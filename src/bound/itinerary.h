// Itinerary: what a byte does between the launch that makes it and the one that replaces it: in which of its periods it
// is absent, when it leaves and returns, and when it is written. The cheapest one for given prices of lanes and memory
// is what the bound needs of a content (docs/design/0005-lower-bound.md, contents told apart).
//
// Slots are counted from those of the iteration in which the content was made, so they may run past its end. Plain
// data; cheapest() is a pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "bound/fluid.h"

namespace ebb::fluid {

// What a GB costs or earns in a slot, in seconds.
struct SlotPrices {
  double write = 0;
  double read = 0;
  double absent = 0;  // earned if it is absent at the end of the slot
  double within = 0;  // earned if it is absent at some moment of the slot
};

// Prices of a circle of slots, summed up.
class SummedPrices {
 public:
  explicit SummedPrices(const std::vector<SlotPrices>& slots);

  std::uint32_t slots() const { return slots_; }
  double write(std::uint32_t slot) const { return at_[slot % slots_].write; }
  double read(std::uint32_t slot) const { return at_[slot % slots_].read; }
  // Who leaves in slot `out` and returns in `back` earns returning(back) - leaving(out).
  double leaving(std::uint32_t out) const { return ends_[out] + moments_[out]; }
  double returning(std::uint32_t back) const { return ends_[back] + moments_[back + std::size_t{1}]; }

 private:
  const std::uint32_t slots_;
  std::vector<SlotPrices> at_;
  std::vector<double> ends_, moments_;  // over three turns: what is earned in all slots before
};

struct Itinerary {
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Leg {
    std::uint32_t period = 0;  // of the class
    std::uint32_t out = 0, back = 0;
    std::uint32_t written = kNone;  // in which slot; kNone: it has a good copy below
    auto operator<=>(const Leg&) const = default;
  };
  std::vector<Leg> legs;  // in the order of time; none: the byte stays
  double price = 0;       // of a GB; at most 0, which is what staying costs
};

Itinerary cheapest(const Class& content, const SummedPrices& prices);

}  // namespace ebb::fluid
