// FaultOrder: whether touches of absent memory come in runs, as who goes through arrays makes them, or in no order, as
// a sort or a shuffle does. In no order each brings a whole block for the sake of a few bytes, and smaller blocks
// serve.
//
// Owned by the runtime, under its lock. A heuristic of fixed size: so many runs side by side are told apart, of which
// few may skip what came with the touch before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/index.h"
#include "ebb/stats.h"

namespace ebb {

class FaultOrder {
 public:
  static constexpr std::size_t kRuns = 16;
  static constexpr std::uint64_t kWindowNs = 10'000'000'000;

  // A touch of this block, when so much time has been waited in all. True: for a while it was most of the time, and
  // most of these touches were scattered.
  bool note(BlockIndex block, std::uint64_t now_ns, std::uint64_t waited_ns) {
    const bool goes_on = follows(block);
    last_[next_++ % kRuns] = block;
    scattered_ += goes_on ? 0 : 1;
    if (now_ns - begin_.ns < kWindowNs) return false;
    const Moment begin = std::exchange(begin_, {now_ns, waited_ns, next_, scattered_});
    const std::uint64_t scattered = scattered_ - begin.scattered;
    return 2 * (waited_ns - begin.waited_ns) >= now_ns - begin.ns && scattered >= Stats::kScatteredMin &&
           2 * scattered >= next_ - begin.touches;
  }
  // Touches that went on with none of those just before.
  std::uint64_t scattered() const { return scattered_; }

 private:
  // Of the latest few also at some distance: what lies between came with them, untouched.
  static constexpr std::uint64_t kLatest = 3;
  static constexpr std::uint32_t kBrought = 4;

  bool follows(BlockIndex block) const {
    for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(kRuns, next_); ++back) {
      const std::uint32_t last = last_[(next_ - back) % kRuns].value();
      if (block.value() >= last && block.value() - last <= (back <= kLatest ? kBrought : 1)) return true;
    }
    return false;
  }

  struct Moment {
    std::uint64_t ns = 0, waited_ns = 0, touches = 0, scattered = 0;
  };
  std::array<BlockIndex, kRuns> last_{};
  std::uint64_t next_ = 0;
  std::uint64_t scattered_ = 0;
  Moment begin_;
};

}  // namespace ebb
