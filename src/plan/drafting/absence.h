// Absence: between two uses some blocks are not in memory. Of a piece, as the planner decides on it and a forecast
// passes it through the lanes; and of a tensor, as a plan hands it out.
#pragma once

#include <cstdint>

#include "base/tier.h"
#include "plan/recording.h"

namespace ebb {

struct Absence {
  std::uint32_t blocks = 0;
  Tier tier = Tier::kFlash;
  Recording::Position after = 0;  // the event of the use after which they leave
  std::uint64_t before = 0;       // the event that ends it; from size() on: in the next iteration
  bool needed = true;             // by that event, which is a use; or they are freed there and nothing returns
  std::uint64_t return_from = 0;  // the event from which on they are fetched, counted likewise
};

struct PieceAbsence : Absence {  // of its last blocks
  std::uint32_t touch = 0;       // of Pieces: that use
  std::uint32_t unwritten = 0;   // blocks that have no good copy below when they leave, unless they are cleaned
};

struct TensorAbsence : Absence {
  std::uint32_t use = 0;          // index of that use in the recording
  std::uint32_t first_block = 0;  // relative to the tensor's first
};

}  // namespace ebb
