// foresight: evicts what is needed last and fetches what is needed next, knowing the iteration from the one before.
//
// Every iteration is recorded, and followed in the recording of the one before it: each event of the program is matched
// to an event there, which tells when each block is needed again. The block needed last is evicted (Belady, 1966), and
// blocks are fetched in the order of their next use, as far ahead as everything that is used or made until then fits
// in memory together: what is fetched earlier would have to leave again. Where the program leaves the recording for
// good, and in its first iteration, this is `window`.
//
// Time is counted in events over all iterations: the n-th event of iteration i is at base_ + n.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/policy.h"
#include "plan/recording.h"

namespace ebb {

class Foresight final : public Policy {
 public:
  std::string_view name() const override { return "foresight"; }
  bool listens() const override { return true; }

  void budget(std::uint64_t block_bytes, std::uint32_t frames) override;
  void allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void freed(std::uint64_t allocation) override;
  void launched(std::uint64_t op, std::span<const Touch> touches) override;
  void step() override;
  std::uint64_t keep(BlockIndex index, const Block& block) const override;
  Ahead ahead(const PageTable& table, Tier below) override;
  std::uint64_t deviations() const override { return deviations_; }

 private:
  using Position = Recording::Position;

  // Matches an event of the program; its position in plan_, or kNever.
  Position match(std::uint64_t signature, bool launch);
  std::uint64_t next_use_after(const Recording::Use& use) const;
  void cover(BlockRange blocks);
  void see_use(BlockRange blocks, std::uint64_t when);
  void rebuild();
  BlockRange blocks_of(const Recording::Use& use, bool next_iteration) const;
  std::uint64_t resolve(std::uint32_t reference, bool next_iteration) const;

  Recording recording_;  // of this iteration
  Recording plan_;       // of the one before
  bool following_ = false;
  std::uint64_t base_ = 0;
  Position cursor_ = 0;  // the next event expected
  std::uint32_t misses_ = 0;
  std::uint64_t deviations_ = 0;
  std::uint64_t next_serial_ = 1;

  std::map<std::uint64_t, BlockRange> live_;  // by serial
  std::vector<std::uint64_t> bound_;          // by reference of plan_: the serial it has in this iteration, or 0
  std::vector<std::uint64_t> next_use_;       // by block
  std::vector<BlockIndex> first_blocks_;      // scratch of launched()

  // The search for blocks to fetch: how far it has come, in events from the start of this iteration (it may reach into
  // the next), and two sums that must fit in memory: the blocks that exist and are used between the cursor and there,
  // because they are to be here together now; and what is in use there, where some of them have been freed and others
  // were allocated.
  void restart_scan();
  bool demand(std::uint32_t reference, std::uint64_t bytes);
  bool demand(std::uint32_t reference, BlockRange blocks);
  void release(std::uint32_t reference);
  std::uint64_t scan_ = 0;
  std::uint32_t scan_use_ = 0;
  std::uint32_t scan_number_ = 0;
  std::uint64_t block_bytes_ = 0;
  std::uint64_t present_bytes_ = 0;
  std::uint64_t demand_bytes_ = 0;
  std::uint64_t demand_bytes_max_ = 0;
  std::vector<std::uint64_t> demanded_;           // by reference of plan_: its part of demand_bytes_
  std::vector<std::uint32_t> demanded_block_in_;  // by block: the scan that has counted it
  std::uint32_t launches_since_restart_ = 0;
};

}  // namespace ebb
