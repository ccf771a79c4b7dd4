// StarvationClock: whether a fault that finds no block able to leave has been given enough time. It may be served when
// somebody unpins a page or frees memory; after a while in which nothing was under way that could help, it never will.
// Owned by the runtime, under its lock.
#pragma once

#include <cstdint>

#include "base/index.h"

namespace ebb {

class StarvationClock {
 public:
  explicit StarvationClock(std::uint64_t limit_ns) : limit_ns_(limit_ns) {}

  // `starved`: the block that waits now, or none; `help_comes`: flash is being grown, a frame made. True: give up on
  // it.
  bool over(std::uint64_t now_ns, BlockIndex starved, bool help_comes) {
    if (!starved.valid() || help_comes) {
      block_ = BlockIndex::none();
      return false;
    }
    if (starved != block_) {
      block_ = starved;
      since_ns_ = now_ns;
    }
    return now_ns - since_ns_ > limit_ns_;
  }
  // Nobody starves.
  void end() { block_ = BlockIndex::none(); }

 private:
  const std::uint64_t limit_ns_;
  BlockIndex block_;
  std::uint64_t since_ns_ = 0;
};

}  // namespace ebb
