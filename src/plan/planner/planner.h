// Planner: which tensors leave while nobody uses them, how much of each, where to, and when they come back.
//
// From the recording of one iteration, taken to repeat for ever: Belady's rule (the tensor needed last leaves, as many
// of its blocks as must) chooses the absences; each is then begun as soon as its tensor is idle, not when the frame is
// needed; each ends, its fetch begins, early enough for its lane to bring everything in the order in which it is
// needed, and earlier where there is room; and the absences that host memory cannot hold, longest first, go to flash.
// After G10 (Zhang et al., MICRO 2023, sections 4.3 and 4.4), which moves whole tensors and chooses by size and length.
//
// A pure function, some milliseconds for 10,000 launches. A plan is advice: a wrong one costs time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tier.h"
#include "plan/planner/cleanings.h"
#include "plan/planner/plan_limits.h"
#include "plan/recording.h"

namespace ebb {

struct Plan {
  using Position = Recording::Position;
  // After one use of a tensor some of its blocks are absent until their next use, or its end. Absences of the same use
  // follow one another.
  struct Absence {
    std::uint32_t use = 0;          // index of the use in the recording
    std::uint32_t first_block = 0;  // relative to the tensor's first
    std::uint32_t blocks = 0;
    Tier tier = Tier::kFlash;
    Position after = 0;             // the event of that use
    std::uint64_t before = 0;       // the event that ends it; from size() on: in the next iteration
    bool needed = true;             // by that event, which is a use; or the tensor is freed there and nothing returns
    std::uint64_t return_from = 0;  // the event from which on it is fetched, counted likewise
  };
  std::vector<Absence> absences;      // in the order of their uses
  std::vector<std::uint32_t> by_use;  // index of the first into absences, or kStays
  std::vector<Cleaning> cleanings;    // in the order of their uses

  static constexpr std::uint32_t kStays = 0xffffffff;
};

Plan make_plan(const Recording& recording, const PlanLimits& limits);

}  // namespace ebb
