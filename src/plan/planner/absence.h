// Absence: between two uses of a piece some of its blocks are not in memory. What the planner decides on, and what a
// forecast is made for.
#pragma once

#include <cstdint>

#include "base/tier.h"
#include "plan/recording.h"

namespace ebb {

struct Absence {
  std::uint32_t touch = 0;   // of Pieces: after which they leave
  std::uint32_t blocks = 0;  // the last ones of the piece
  Tier tier = Tier::kFlash;
  Recording::Position after = 0;  // the event of that touch
  std::uint64_t before = 0;       // the event that ends it; from size() on: in the next iteration
  bool needed = true;             // by that event, which is a use; or they die there and nothing returns
  std::uint64_t return_from = 0;  // the event from which on they are fetched, counted likewise
  std::uint32_t unwritten = 0;    // blocks that have no good copy below when they leave, unless they are cleaned
};

}  // namespace ebb
