// Victims: which resident block is worth least. A scan over all frames ranks them and keeps the lowest few, so that a
// scan is paid once for many evictions; a candidate is checked again when it is taken, because it may have been used.
//
// Order: blocks whose content is dead, those first that were used longest ago: an address that has just been freed is
// the next to be allocated, and a device may still be at work on what lies there. Then by Policy::keep(); then, by age,
// blocks that a running launch uses and those that the program has just faulted for: a policy to which such a block is
// worthless must not send it away before the access that waited for it has been made.
// Owned by the engine; never allocates after construction.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/index.h"
#include "move/dead_blocks.h"
#include "plan/policy.h"
#include "space/page_table.h"

namespace ebb {

class Victims {
 public:
  static constexpr std::uint64_t kDead = 0;
  static constexpr std::uint64_t kPinned = std::numeric_limits<std::uint64_t>::max() / 2;

  struct Candidate {
    std::uint64_t worth = 0;
    BlockIndex block;
    std::uint64_t dead_since = 0;  // of dead content: its last use
  };

  // counted: pins are what Block::pins counts, rather than what has been used lately.
  Victims(const PageTable& table, const Policy& policy, bool counted = false);

  // Blocks used at or after this stamp belong to running launches.
  void set_pinned_from(std::uint64_t stamp) {
    pinned_from_ = stamp;
    pins_changed_ = true;
  }
  // The program waits for this block: it is pinned until some others have been waited for.
  void set_faulted(BlockIndex block) {
    if (faulted(block)) return;
    faulted_[next_faulted_++ % faulted_.size()] = block;
    pins_changed_ = true;
  }
  bool faulted(BlockIndex block) const { return std::find(faulted_.begin(), faulted_.end(), block) != faulted_.end(); }
  std::uint64_t pinned_from() const { return pinned_from_; }
  void note_pins() { pins_changed_ = true; }
  // Whether a running launch uses this block, or the program has just waited for it.
  bool pinned(BlockIndex block) const {
    return (counted_ ? table_[block].pins > 0 : table_[block].last_use >= pinned_from_) || faulted(block);
  }
  // The resident block worth least; `block` is none if there is none. It is looked at, not taken: the caller
  // changes its state or its worth, or calls skip().
  Candidate least();
  // The same, but only a block whose content is dead: of those that died as they were resident, or became so.
  Candidate least_dead();
  void note_dead(BlockIndex block) { dead_.add(block); }
  void validate() { dead_.validate(); }
  // Ranks all blocks anew: some may have come since the last time that are worth less than those known.
  void look_again() {
    skipped_ = {};
    scan();
  }
  // Passes over what least() has named, and nothing else: it comes to those worth more, and after the last of them to
  // none, once, and to the first again. So blocks that cannot leave never hide those that can.
  void skip(const Candidate& least);
  // Whether least() may be none, or worth more than others, only because of that.
  bool passed_over() const { return passed_over_; }
  // The next time nothing has been passed over.
  void begin_again() {
    skipped_ = {};
    candidates_.clear();
    passed_over_ = false;
  }
  std::uint64_t worth(BlockIndex index) const;

 private:
  void scan();
  Candidate candidate(BlockIndex index) const;
  bool current(const Candidate& known) const;

  const PageTable& table_;
  const Policy& policy_;
  const bool counted_;
  std::uint64_t pinned_from_ = std::numeric_limits<std::uint64_t>::max();
  std::array<BlockIndex, 4> faulted_;  // half of the fewest frames there may be
  std::size_t next_faulted_ = 0;
  std::vector<Candidate> candidates_;  // descending by worth: the least is at the back
  DeadBlocks dead_;
  Candidate skipped_;          // the next scan begins above it
  bool passed_over_ = false;   // some that are worth less than the candidates
  std::uint64_t version_ = 0;  // of the policy, at the last scan
  bool pins_changed_ = false;  // since the last scan: others may be worth less than a pinned candidate now
};

}  // namespace ebb
