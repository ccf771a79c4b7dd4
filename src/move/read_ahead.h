// ReadAhead: which blocks come along with one that is touched while it is absent. Touches of a program that announces
// nothing (NumPy, C++, an operator on more than memory) come in runs, as of who goes through arrays: several at once,
// of several arrays and of threads that each have a part. How far a run goes on is not known, so with its second touch
// two blocks come along, and with each further one twice as many as before, up to a limit. In the middle of them one is
// held back: its touch tells that the run has come there, and the next part comes while the program goes through the
// rest, so that the disk never stands still. Touches in no order bring nothing more: who goes through the rows of a
// matrix side by side needs a block of each, and no room may be taken from these.
//
// Source: how Linux reads files ahead (Wu, Xi and Xu: On the design of a new Linux readahead framework, ACM SIGOPS
// Operating Systems Review 42(5), 2008, section 4).
//
// Owned by the engine, which fetches and holds what this names. Never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/index.h"

namespace ebb {

class ReadAhead {
 public:
  static constexpr std::size_t kRuns = 16;

  struct Part {
    BlockRange blocks;
    BlockIndex held;       // of these, or none
    BlockIndex abandoned;  // one that was held, and whose touch tells nothing any more, or none
  };

  // `block` is touched: it was absent, or else (not `absent`) held back or on its way. At most `most` are ahead of a
  // run.
  Part touched(BlockIndex block, bool absent, std::uint32_t most) {
    for (Run& run : runs_) {
      if (run.window > 0 && run.at <= block && block <= run.end) return go_on(run, block, absent, most);
    }
    return absent ? begin(block, most) : Part{};
  }
  // Touches that went on with no run.
  std::uint64_t begun() const { return begun_; }

 private:
  struct Run {
    BlockIndex at;             // touched last
    BlockIndex end;            // behind what is ahead
    BlockIndex held;           // or none
    std::uint32_t window = 0;  // that may be ahead; 0: no run
    std::uint64_t used = 0;
  };

  Part go_on(Run& run, BlockIndex block, bool absent, std::uint32_t most) {
    run.used = ++now_;
    if (block == run.at || (!absent && block < run.held)) return {};
    // What had come had to leave again before it was touched.
    const bool in_vain = absent && block < run.end;
    run.window = in_vain ? std::max(run.window / 2, 1u) : std::clamp(2 * run.window, 1u, std::max(most, 1u));
    run.at = block;
    const BlockIndex abandoned = run.held == block ? BlockIndex::none() : run.held;
    const BlockIndex first = in_vain ? block.next() : std::max(run.end, block.next());
    const BlockIndex end = std::max(first, BlockIndex(block.value() + 1 + run.window));
    run.end = end;
    run.held = BlockIndex(block.value() + 1 + run.window / 2);
    return {{first, end.value() - first.value()}, run.held, abandoned};
  }

  // In place of the run that was touched longest ago. Each may hold a block back for nothing, so in little memory there
  // are fewer.
  Part begin(BlockIndex block, std::uint32_t most) {
    ++begun_;
    const auto older = [](const Run& left, const Run& right) { return left.used < right.used; };
    const std::size_t runs = std::clamp<std::size_t>(std::size_t{4} * most, 2, kRuns);
    Run& run = *std::min_element(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(runs), older);
    const BlockIndex abandoned = run.held;
    run = {block, block.next(), BlockIndex::none(), 1, ++now_};
    return {{block.next(), 0}, BlockIndex::none(), abandoned};
  }

  std::array<Run, kRuns> runs_{};
  std::uint64_t now_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace ebb
