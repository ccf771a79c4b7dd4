// Victims: which resident block is worth least. A scan over all frames ranks them and keeps the lowest few, so that a
// scan is paid once for many evictions; a candidate is checked again when it is taken, because it may have been used.
//
// Order: blocks whose content is dead, then by Policy::keep(), then blocks that a running launch uses (by age).
// Owned by the engine; never allocates after construction.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/index.h"
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
  };

  Victims(const PageTable& table, const Policy& policy);

  // Blocks used at or after this stamp belong to running launches.
  void set_pinned_from(std::uint64_t stamp) { pinned_from_ = stamp; }
  // The resident block worth least; `block` is none if nothing is resident. It is looked at, not taken: the caller
  // changes its state or its worth, or calls skip().
  Candidate least();
  // The same, but only a block whose content is dead.
  Candidate least_dead();
  // Leaves this block alone until the next scan.
  void skip();
  std::uint64_t worth(BlockIndex index) const;

 private:
  void scan();
  bool current(const Candidate& candidate) const;

  const PageTable& table_;
  const Policy& policy_;
  std::uint64_t pinned_from_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<Candidate> candidates_;  // descending by worth: the least is at the back
};

}  // namespace ebb
