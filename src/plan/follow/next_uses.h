// NextUses: when each block is needed next. Several allocations may share a block, and it is needed when the first of
// them is: so for their first and last blocks what each allocation says is kept apart, and one that has been used, or
// freed, leaves what the others say.
//
// Owned by a follower, which tells it. add() and see() may allocate; of() and expect() never do. Events only grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "space/page_table.h"

namespace ebb {

class NextUses {
 public:
  explicit NextUses(std::uint64_t never) : never_(never) {}

  std::uint32_t blocks() const { return static_cast<std::uint32_t>(next_.size()); }
  void cover(BlockRange blocks) {
    if (blocks.end().value() <= next_.size()) return;
    next_.resize(blocks.end().value() + std::size_t{1024}, never_);
    tenants_.resize(next_.size());
  }
  void add(std::uint64_t allocation, BlockRange blocks) {
    if (blocks.count == 0) return;
    tenants_[blocks.first.value()].push_back({allocation, never_});
    if (blocks.count > 1) tenants_[last_of(blocks).value()].push_back({allocation, never_});
  }
  void remove(std::uint64_t allocation, BlockRange blocks, std::uint64_t now) {
    if (blocks.count == 0) return;
    for (const BlockIndex block : {blocks.first, last_of(blocks)}) {
      auto& tenants = tenants_[block.value()];
      std::erase_if(tenants, [&](const Tenant& tenant) { return tenant.allocation == allocation; });
      if (!tenants.empty()) next_[block.value()] = earliest(tenants, now);
    }
  }
  // These blocks of an allocation are needed at `when`, and not before.
  void see(std::uint64_t allocation, BlockRange blocks, std::uint64_t when, std::uint64_t now) {
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      auto& tenants = tenants_[i.value()];
      for (Tenant& tenant : tenants) {
        if (tenant.allocation == allocation) tenant.next = when;
      }
      next_[i.value()] = tenants.empty() ? when : std::min(when, earliest(tenants, now));
    }
  }
  // A use that was not foreseen when the block was last looked at.
  void expect(BlockIndex block, std::uint64_t when, std::uint64_t now) {
    std::uint64_t& next = next_[block.value()];
    if (next == never_ || next < now || next > when) next = when;
  }
  // May be over: what was expected and did not come.
  std::uint64_t of(BlockIndex block) const { return block.value() < next_.size() ? next_[block.value()] : never_; }

  void forget() {
    std::fill(next_.begin(), next_.end(), never_);
    for (auto& tenants : tenants_) {
      for (Tenant& tenant : tenants) tenant.next = never_;
    }
  }

 private:
  struct Tenant {
    std::uint64_t allocation = 0;
    std::uint64_t next = 0;
  };

  static BlockIndex last_of(BlockRange blocks) { return BlockIndex(blocks.end().value() - 1); }
  std::uint64_t earliest(const std::vector<Tenant>& tenants, std::uint64_t now) const {
    std::uint64_t first = never_;
    for (const Tenant& tenant : tenants) {
      if (tenant.next >= now) first = std::min(first, tenant.next);
    }
    return first;
  }

  const std::uint64_t never_;
  std::vector<std::uint64_t> next_;           // by block
  std::vector<std::vector<Tenant>> tenants_;  // by block: allocations that begin or end there
};

}  // namespace ebb
