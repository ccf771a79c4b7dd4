// SecondUse: whether blocks that nobody can plan for, rows of a table, are used again before the iteration is over.
// What a forward pass looks up, the optimizer updates; what it has updated is not used before the next iteration.
//
// Which operators have used a block in this iteration, one after the other, is its chain. Where half of the blocks that
// had a chain were used once more, those that have it now will be. Counts of earlier iterations fade. Owned by a
// policy. used() allocates, comes() never does.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/policy.h"

namespace ebb {

class SecondUse {
 public:
  void used(std::uint64_t op, BlockRange blocks, std::uint64_t iteration) {
    if (blocks.end().value() > latest_.size()) latest_.resize(blocks.end().value() + std::size_t{1024});
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      Latest& latest = latest_[i.value()];
      if (latest.iteration != iteration) latest = {iteration, kNothing};
      if (chains_[latest.chain].op == op) continue;  // the same operator on other rows of the block
      chains_[latest.chain].continued += latest.chain == kNothing ? 0 : 1;
      latest.chain = chain_of(latest.chain, op);
      Chain& chain = chains_[latest.chain];
      chain.reached += 1;
      if (chain.reached < kFade) continue;
      chain.reached /= 2;
      chain.continued /= 2;
    }
  }
  // Whether the block, used in this iteration, will be used again in it.
  bool comes(BlockIndex block, std::uint64_t iteration) const {
    if (block.value() >= latest_.size()) return false;
    const Latest& latest = latest_[block.value()];
    const Chain& chain = chains_[latest.chain];
    // Those that have it now are among them.
    return latest.iteration == iteration && latest.chain != kNothing && 2 * chain.continued >= chain.reached;
  }

 private:
  static constexpr std::uint32_t kNothing = 0;
  static constexpr std::size_t kChainsMax = 1024;
  static constexpr double kFade = 4096;  // uses of blocks

  struct Chain {
    std::uint64_t op = 0;  // the last of it
    double reached = 0;    // by how many blocks
    double continued = 0;  // and by how many of these it was left for a longer one
  };
  struct Latest {
    std::uint64_t iteration = 0;
    std::uint32_t chain = kNothing;
  };

  std::uint32_t chain_of(std::uint32_t before, std::uint64_t op) {
    const auto next = static_cast<std::uint32_t>(chains_.size());
    const auto [found, added] = longer_.emplace(std::pair(before, op), next);
    if (!added) return found->second;
    if (chains_.size() >= kChainsMax) {
      longer_.erase(found);
      return kNothing;
    }
    chains_.push_back({op, 0, 0});
    return next;
  }

  std::vector<Chain> chains_{Chain{}};
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> longer_;  // a chain and one operator more
  std::vector<Latest> latest_;                                               // by block
};

}  // namespace ebb
