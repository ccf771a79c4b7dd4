// Habit: how often, of late, blocks have been used that nobody can plan for: the experts that a token happens to
// choose, rows of a table. What is used often will be again, whatever came last; a token of a mixture of experts goes
// through so many blocks that of what was used last nothing is left when it is needed.
//
// A use counts half as much after kHalfLife iterations. The sum is kept as its logarithm, from the beginning of time,
// so blocks compare without being brought up to date. Owned by a policy; worth() never allocates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "plan/policy.h"

namespace ebb {

class Habit {
 public:
  static constexpr double kHalfLife = 16;  // in iterations

  void used(BlockRange blocks, std::uint64_t iteration) {
    if (blocks.end().value() > uses_.size()) uses_.resize(blocks.end().value() + std::size_t{1024}, 0.0);
    const double now = 1 + static_cast<double>(iteration) / kHalfLife;
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      double& uses = uses_[i.value()];
      uses = uses == 0 ? now : std::max(uses, now) + std::log2(1 + std::exp2(-std::abs(uses - now)));
    }
  }
  // 0: never used; below 2^48.
  std::uint64_t worth(BlockIndex block) const {
    return block.value() < uses_.size() ? static_cast<std::uint64_t>(std::min(uses_[block.value()] * 65536, 0x1p47))
                                        : 0;
  }

 private:
  std::vector<double> uses_;  // by block: the logarithm; 0: never used
};

}  // namespace ebb
