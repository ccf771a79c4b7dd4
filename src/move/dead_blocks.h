// DeadBlocks: the resident blocks whose content is dead, the one that was used longest ago first; of those of one time,
// the last. A heap; what has become of a block since it was put there is seen when it comes to the top.
//
// Owned by Victims, under the runtime's lock; never allocates after construction. Invariant: each block that is
// resident and dead has an entry, whose time is not later than that of its last use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "space/page_table.h"

namespace ebb {

class DeadBlocks {
 public:
  explicit DeadBlocks(const PageTable& table) : table_(table) { entries_.reserve(2 * table.frames_max()); }

  // It is resident, and dead; from now on, or its last use is earlier than it was.
  void add(BlockIndex block) {
    if (entries_.size() == entries_.capacity()) return find_all();
    entries_.push_back({table_[block].last_use, block});
    std::push_heap(entries_.begin(), entries_.end(), kLater);
  }

  // None if there is none. It stays.
  BlockIndex first() {
    while (!entries_.empty()) {
      const Entry entry = entries_.front();
      const Block& block = table_[entry.block];
      const bool dead = is_dead(block);
      if (dead && block.last_use == entry.since) return entry.block;
      std::pop_heap(entries_.begin(), entries_.end(), kLater);
      entries_.pop_back();
      if (dead) add(entry.block);
    }
    return BlockIndex::none();
  }

  void validate() {
    const BlockIndex found = first();
    for_dead([&](BlockIndex block) {
      EBB_CHECK(found.valid());
      EBB_CHECK(!kLater({table_[found].last_use, found}, {table_[block].last_use, block}));
    });
  }

 private:
  struct Entry {
    std::uint64_t since = 0;
    BlockIndex block;
  };
  static constexpr auto kLater = [](const Entry& left, const Entry& right) {
    return left.since != right.since ? left.since > right.since : left.block < right.block;
  };

  static bool is_dead(const Block& block) { return block.state == BlockState::kResident && block.live == 0; }

  template <typename F>
  void for_dead(F&& dead) const {
    for (std::uint32_t i = 0; i < table_.frames_max(); ++i) {
      const BlockIndex block = table_.block_of(FrameIndex(i));
      if (block.valid() && is_dead(table_[block])) dead(block);
    }
  }

  // Those that are no longer dead have filled it.
  void find_all() {
    entries_.clear();
    for_dead([&](BlockIndex block) { entries_.push_back({table_[block].last_use, block}); });
    std::make_heap(entries_.begin(), entries_.end(), kLater);
  }

  const PageTable& table_;
  std::vector<Entry> entries_;
};

}  // namespace ebb
