// Rng: a small seeded generator with an integer interface, for simulation and tests. The same seed gives the same
// numbers on every machine; each component splits its own stream off its parent's.
//
// Source: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#pragma once

#include <cstdint>

#include "base/check.h"

namespace ebb {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound).
  std::uint64_t below(std::uint64_t bound) {
    EBB_CHECK_LT(0u, bound);
    return next() % bound;
  }
  // Uniform in [low, high], both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  // True with probability numerator / denominator.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) { return below(denominator) < numerator; }
  Rng split() { return Rng(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace ebb
