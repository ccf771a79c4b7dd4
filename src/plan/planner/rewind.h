// Rewind: what comes next in an iteration that has no recording to follow. A backward pass uses what the forward pass
// used, in the opposite order, and an optimizer goes through gradients in the opposite order in which they were made.
// So where the program has been going backward through its own events, what it used a little before comes next.
// Vitality analysis without an analysis: no profile, no graph, and right for the first iteration of training.
//
// Owned by a policy, which tells it of launches. Only looks at the recording of the iteration so far; next() never
// allocates. Blocks used less recently than the one that it names are needed later: they make room for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "plan/policy.h"
#include "plan/recording.h"

namespace ebb {

class Rewind {
 public:
  using Position = Recording::Position;

  // Another recording begins.
  void begin() { *this = {}; }
  // The launch at `now` uses something whose use before that was at `earlier`.
  void used(Position earlier, Position now);
  bool going_back() const { return hits_ >= kHitsMin && misses_ < kMissesMax; }

  // The absent block that is next, or none. `blocks_of` a use of the recording are those that it has now.
  template <typename BlocksOf>
  Policy::Ahead next(const PageTable& table, const Recording& recording, const BlocksOf& blocks_of) {
    if (!going_back()) return {};
    scan_ = std::min(scan_, cursor_);
    for (; scan_ + kReach > cursor_; --scan_) {
      for (const Recording::Use& use : recording.uses(recording.event(scan_))) {
        const BlockRange blocks = blocks_of(use);
        for (BlockIndex i = blocks.first; blocks.count > 0 && i != blocks.end(); i = i.next()) {
          if (table[i].state != BlockState::kOnFlash || table[i].queue != 0) continue;
          // Of one use, too, what is named later is needed later: or it would send away what has come for its sake, and
          // that would be named again.
          worth_ = std::min(worth_, table[i].last_use);
          return {i, worth_};
        }
      }
      if (scan_ == 0) break;
    }
    return {};
  }

 private:
  static constexpr Position kRecent = 32;   // events: used so shortly before, it tells nothing
  static constexpr Position kJitter = 16;   // one operator uses what several used, and not in order
  static constexpr Position kStride = 256;  // the most that one launch goes back
  static constexpr Position kReach = 512;   // how far ahead is looked
  static constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint32_t kHitsMin = 4, kMissesMax = 4;

  Position cursor_ = Recording::kNever;  // how far back the program has gone
  Position scan_ = Recording::kNever;    // what lies between is here, or on its way
  std::uint64_t worth_ = kMost;          // of what was named last, since the cursor has moved
  std::uint32_t hits_ = 0;
  std::uint32_t misses_ = 0;  // in a row
};

}  // namespace ebb
