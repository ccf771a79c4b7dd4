// Arrivals: in which order blocks came into memory: the order in which the published systems send them away, because
// a device does not tell when it uses a page, only when it misses one.
//
// Owned by a policy. cover() allocates, for blocks that may arrive; note() never does.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "space/page_table.h"

namespace ebb {

class Arrivals {
 public:
  void cover(BlockRange blocks) {
    if (blocks.end().value() > stamps_.size()) stamps_.resize(blocks.end().value() + std::size_t{1024}, 0);
  }
  void note(BlockIndex block) {
    if (block.value() < stamps_.size()) stamps_[block.value()] = ++latest_;
  }
  // 0: before all others.
  std::uint64_t of(BlockIndex block) const { return block.value() < stamps_.size() ? stamps_[block.value()] : 0; }

 private:
  std::vector<std::uint64_t> stamps_;
  std::uint64_t latest_ = 0;
};

}  // namespace ebb
