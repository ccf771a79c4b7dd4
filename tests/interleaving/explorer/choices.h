// Choices: the tree of what can be chosen in a scenario, walked depth first: an execution takes the choices of the one
// before it as far as that is possible, and another one at the last place where one is left. By lot, each is drawn.
//
// Owned by the Explorer; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace ebb::interleaving {

class Choices {
 public:
  void by_lot(std::uint64_t seed) {
    lot_ = true;
    rng_ = Rng(seed);
  }

  // One of so many; of one there is nothing to choose.
  std::size_t next(std::size_t count) {
    if (count == 1) return 0;
    if (lot_) return rng_.below(count);
    if (depth_ == taken_.size()) taken_.push_back({0, count});
    const Taken& taken = taken_[depth_++];
    EBB_CHECK_EQ(taken.count, count);  // else the scenario does not do the same for the same choices
    return taken.at;
  }
  // To the next execution. False: there is none.
  bool advance() {
    depth_ = 0;
    if (lot_) return true;
    while (!taken_.empty() && taken_.back().at + 1 == taken_.back().count) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().at;
    return true;
  }

 private:
  struct Taken {
    std::size_t at = 0;
    std::size_t count = 0;
  };
  std::vector<Taken> taken_;
  std::size_t depth_ = 0;
  bool lot_ = false;
  Rng rng_{1};
};

}  // namespace ebb::interleaving
