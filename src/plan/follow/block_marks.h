// BlockMarks: a set of blocks that is emptied at once: what a search has counted already, when it begins again after
// each few launches.
//
// Owned by a policy. cover() may allocate, all else never does.
#pragma once

#include <cstdint>
#include <vector>

#include "space/page_table.h"

namespace ebb {

class BlockMarks {
 public:
  // Blocks below this may be marked.
  void cover(std::uint32_t blocks) {
    if (blocks > marked_in_.size()) marked_in_.resize(blocks, 0);
  }
  void clear() { ++number_; }
  bool has(BlockIndex block) const { return marked_in_[block.value()] == number_; }
  void add(BlockRange blocks) {
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) marked_in_[i.value()] = number_;
  }

 private:
  std::vector<std::uint32_t> marked_in_;  // by block
  std::uint32_t number_ = 1;
};

}  // namespace ebb
