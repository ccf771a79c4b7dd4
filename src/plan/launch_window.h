// LaunchWindow: a policy around another one, which knows the launches that are queued: what comes next for certain, in
// the first iteration too. What they need is fetched in their order, ahead of their turn, and is kept in the order of
// need; what none of them needs is worth less, and left to the policy inside. So a block is never fetched in place of
// one that an earlier queued launch needs. With nothing queued it is the policy inside.
//
// A launch is in the window until it is over: what it still needs is not given up because a later one will overwrite
// it. What a launch overwrites is worth nothing until it begins; from then on it is its work.
//
// Source: PUMP (Lin et al., ASP-DAC 2022, section III): prefetch in the delay between launching a kernel and its
// execution, profiling-free.
//
// Owned by the core, under the runtime's lock. expect() and allocated() allocate and belong to the program's threads.
// Invariant: a block's uses are linked in the order of their launches.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plan/policy.h"

namespace ebb {

class LaunchWindow final : public Policy {
 public:
  // Blocks that a queued launch needs; overwritten: their content until then does not matter.
  struct Part {
    BlockRange blocks;
    bool overwritten = false;
  };
  explicit LaunchWindow(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

  // A launch that comes after all expected before it; returns its number. Of one larger than memory only the beginning
  // is known, and nothing is given up behind it.
  std::uint64_t expect(std::span<const Part> parts);
  // It runs from now on. 0 is allowed here and below.
  void begin(std::uint64_t launch);
  // It is over, or will not come.
  void forget(std::uint64_t launch);
  std::size_t size() const { return launches_.size(); }

  std::string_view name() const override { return policy_->name(); }
  bool listens() const override { return policy_->listens(); }
  void budget(std::uint64_t block_bytes, std::uint32_t frames) override;
  void set_pace(const Pace& pace) override { policy_->set_pace(pace); }
  void allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void freed(std::uint64_t allocation) override { policy_->freed(allocation); }
  void launched(std::uint64_t op, std::span<const Touch> touches) override { policy_->launched(op, touches); }
  void used_at_random(std::uint64_t op, BlockRange blocks) override { policy_->used_at_random(op, blocks); }
  void touched(BlockIndex block, std::uint64_t stamp) override { policy_->touched(block, stamp); }
  void ran(std::uint64_t ns) override { policy_->ran(ns); }
  void step() override { policy_->step(); }
  void foretell(const Recording& iteration) override { policy_->foretell(iteration); }
  const Recording* latest() const override { return policy_->latest(); }
  std::uint64_t keep(BlockIndex index, const Block& block) const override;
  // Not that of the policy inside: ranking all blocks at each of its changes made nothing faster, and experts slower.
  std::uint64_t version() const override { return version_; }
  bool dying(BlockIndex block) const override {
    return queued(block) && needs_[ends_[block.value()].first].overwritten;
  }
  Tier destination(BlockIndex block) const override { return policy_->destination(block); }
  Ahead ahead(const PageTable& table, Tier below) override;
  BlockIndex behind(const PageTable& table, Tier below, std::uint64_t pinned_from) override;
  BlockIndex clean(const PageTable& table, Tier below, std::uint64_t pinned_from) override {
    return policy_->clean(table, below, pinned_from);
  }
  void arrived(BlockIndex block) override { policy_->arrived(block); }
  std::uint64_t deviations() const override { return policy_->deviations(); }
  std::uint64_t guided() const override { return policy_->guided(); }

  void validate() const;

 private:
  static constexpr std::uint64_t kQueued = 1ull << 60;  // worth more than anything that a policy knows of
  static constexpr std::uint32_t kNone = 0;

  struct Need {
    BlockIndex block;
    std::uint64_t launch = 0;
    std::uint32_t next = kNone;  // the same block, a later launch
    bool overwritten = false;
  };
  struct Ends {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };
  struct Launch {
    std::vector<std::uint32_t> needs;  // in order
    bool larger_than_memory = false;
  };
  // How far the search for absent blocks has come.
  struct Cursor {
    std::uint64_t launch = 0;
    std::size_t need = 0;
    std::uint32_t blocks = 0;  // different ones until there
  };

  void start_over() {
    cursors_ = {};
    ++version_;
  }
  bool queued(BlockIndex block) const { return block.value() < ends_.size() && ends_[block.value()].first != kNone; }
  void add(std::uint64_t number, Launch& launch, BlockIndex block, bool overwritten);
  void remove(std::uint32_t need);
  static std::uint64_t worth(std::uint64_t launch) { return kQueued - launch; }

  std::unique_ptr<Policy> policy_;
  std::uint64_t next_launch_ = 1;
  std::uint64_t version_ = 0;  // changes as launches begin and leave
  std::uint32_t frames_ = 0;
  std::map<std::uint64_t, Launch> launches_;
  std::uint32_t larger_than_memory_ = 0;  // of them
  std::vector<Need> needs_{1};            // 0 is kNone
  std::vector<std::uint32_t> free_;
  std::vector<Ends> ends_;  // by block
  std::array<Cursor, kTiersBelow> cursors_;
};

}  // namespace ebb
