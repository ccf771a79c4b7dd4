// Taste: what a plan prefers where what is best depends on which lane binds. Plain values.
#pragma once

#include <cstdint>

namespace ebb {

struct Taste {
  // So many times as far away as it is counts the next use of content that this iteration has not made: it may have
  // been written by the time it leaves, which spares the lane out, and comes back once more, which the lane in pays
  // for.
  double old_factor = 1;
  // The same of content that is written when it leaves because it is over, and freed much later: if it leaves before
  // that, the write is the same one, and what else would leave is spared its own.
  double over_factor = 1;
  // An absence goes to flash if its lane is free within the time that it takes for so many blocks; if too few do,
  // twice.
  double patience_blocks = 256;
  // Of the time for which a fetch must begin early, so much counts when room for it is made.
  double lead_share = 1;
  // Where the lanes take longer than the launches, these run when their blocks have come: the time by which fetches are
  // scheduled is that of the lanes.
  bool paced = false;
  // So much of each piece leaves before more of any does. Where a lane is what binds, it is busy all the time if what
  // it brings is needed all the time: a third of each layer in place, rather than a third of the layers.
  double absent_share = 1;
  // So much of memory is for a part of each tensor that an iteration changes and hardly uses, as an optimizer's state.
  // By the next use it would leave first of all, and come back and leave again while the optimizer keeps the lanes
  // busy; weights, which leave in its place, are clean, and come back in passes that leave the lanes idle.
  double state_share = 0;
  // More of what is brought while launches wait stays, and less of what is brought while they do not.
  bool shifted = false;
  // Room for what returns, beside what Belady's rule keeps.
  std::uint32_t reserve_blocks = 0;

  bool operator==(const Taste&) const = default;
};

}  // namespace ebb
