// Planner: which tensors leave while nobody uses them, how much of each, where to, and when they come back.
//
// From the recording of one iteration, taken to repeat for ever: several drafts of absences (draft.h), of which the one
// with the shortest forecast is taken (forecast.h). After G10 (Zhang et al., MICRO 2023, sections 4.3 and 4.4), which
// moves whole tensors and chooses them by size and length.
//
// A pure function, some tenths of a second for some thousand launches. A plan is advice: a wrong one costs time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/drafting/absence.h"
#include "plan/drafting/plan_limits.h"
#include "plan/drafting/taste.h"
#include "plan/planner/cleanings.h"
#include "plan/recording.h"

namespace ebb {

struct Plan {
  using Position = Recording::Position;
  // After one use of a tensor some of its blocks are absent until their next use, or its end. Absences of the same use
  // follow one another.
  std::vector<TensorAbsence> absences;  // in the order of their uses
  std::vector<std::uint32_t> by_use;    // index of the first into absences, or kStays
  std::vector<Cleaning> cleanings;      // in the order of their uses
  // Blocks that stay after a use, although others are needed sooner (Taste::state_share).
  struct Stay {
    std::uint32_t use = 0;          // index of that use in the recording
    std::uint32_t first_block = 0;  // relative to the tensor's first
    std::uint32_t blocks = 0;
    std::uint64_t until = 0;  // the event that uses them next; from size() on: in the next iteration
  };
  std::vector<Stay> stays;  // in the order of their uses
  Taste taste;              // what it was made to

  static constexpr std::uint32_t kStays = 0xffffffff;
};

Plan make_plan(const Recording& recording, const PlanLimits& limits);
// To a taste that was found before: much faster.
Plan make_plan(const Recording& recording, const PlanLimits& limits, const Taste& taste);

}  // namespace ebb
