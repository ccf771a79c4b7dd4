// foresight: evicts what is needed last and fetches what is needed next, both ahead of time, by a plan made from the
// iteration before (planner.h).
//
// What the plan sends away leaves as soon as its launch is over, the block that stays away longest first; it comes back
// from the event that the plan names, in the order of need. What left without a plan, because the program did something
// else, comes back in the order of its next use, as far ahead as everything that is used or made until then fits in
// memory together. Without an iteration to follow this is `window`, which goes on to fetch what a backward pass needs
// next (planner/rewind.h), or where nothing is announced, what a loop over mapped files does (planner/touch_loop.h),
// and keeps most of a loop over anything else (planner/cyclic_reuse.h). A program whose iterations are not alike is
// followed by what it does in most of them (routine/).
//
// The queues hold room for all entries before ahead() and behind() take from them, which never allocate.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/follow/block_marks.h"
#include "plan/follow/follower.h"
#include "plan/planner/cyclic_reuse.h"
#include "plan/planner/habit.h"
#include "plan/planner/planner.h"
#include "plan/planner/rewind.h"
#include "plan/planner/second_use.h"
#include "plan/planner/touch_loop.h"
#include "plan/routine/routine.h"

namespace ebb {

class Foresight final : public Follower {
 public:
  std::string_view name() const override { return "foresight"; }

  void allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void freed(std::uint64_t allocation) override;
  void launched(std::uint64_t op, std::span<const Touch> touches) override;
  void ran(std::uint64_t ns) override;
  void used_at_random(std::uint64_t op, BlockRange blocks) override;
  void touched(BlockIndex block, std::uint64_t stamp) override;
  void arrived(BlockIndex block) override;
  void budget(std::uint64_t block_bytes, std::uint32_t frames) override;
  void step() override;
  // What is to leave by plan is worth less than anything else.
  std::uint64_t keep(BlockIndex index, const Block& block) const override;
  std::uint64_t version() const override { return version_; }
  Tier destination(BlockIndex block) const override;
  Ahead ahead(const PageTable& table, Tier below) override;
  BlockIndex behind(const PageTable& table, Tier below, std::uint64_t pinned_from) override;
  BlockIndex clean(const PageTable& table, Tier below, std::uint64_t pinned_from) override;

 private:
  // Blocks that leave, or come back. Should they have been freed meanwhile, what is done to them is only in vain.
  struct Journey {
    std::uint64_t before = 0;       // the event that needs them, or frees them
    bool needed = true;             // the former: they come back
    std::uint64_t return_from = 0;  // the event from which on they may be fetched
    BlockRange blocks;
    Tier tier = Tier::kFlash;
    Position left_at = 0;    // the launch that used them last
    std::uint32_t done = 0;  // blocks of it dealt with
  };

  void reused(Position earlier) override { rewind_.used(earlier, recording().size()); }
  void matched(Position position, std::span<const Touch> touches) override;
  void matched_allocation(Position position, std::uint64_t allocation) override;
  void cover(BlockRange blocks) override;
  void began(bool changed) override;
  void matched_absences(Position position, std::span<const Touch> touches);
  void matched_stays(const Recording::Event& event, std::span<const Touch> touches);
  void matched_cleanings(const Recording::Event& event, std::span<const Touch> touches);
  void wake_up(Position position);
  void consider_routine();
  void forget_journeys();
  Ahead planned(const PageTable& table, Tier below);
  Ahead unplanned(const PageTable& table);

  struct Planned {
    std::uint64_t version = 0;  // of the kind of iteration
    std::uint32_t frames = 0;
    std::uint32_t searches = 0;  // for the taste of the plan
    Pace pace;
    double duration_ns = 0;
    Plan plan;
  };
  std::array<Planned, kPlansMax> plans_;
  std::vector<Journey> idle_;                                // their launch is the latest: they leave from the next on
  std::array<std::vector<Journey>, kTiersBelow> leaving_;    // heaps by tier below: needed last on top
  std::vector<Journey> away_;                                // heap: the one to return first on top
  std::array<std::vector<Journey>, kTiersBelow> returning_;  // heaps by tier below: needed first on top
  std::vector<std::uint64_t> away_until_;                    // by block: when it may be fetched, if it left by plan
  std::vector<std::uint64_t> stays_until_;                   // by block: what it is worth until then is most
  std::vector<Tier> destination_;                            // by block
  std::uint64_t version_ = 0;
  CleaningQueue cleanings_;
  Rewind rewind_;          // while there is nothing to follow
  TouchLoop loop_;         // where nothing is announced, of mapped files
  CyclicReuse reuse_;      // and of all else
  bool by_touch_ = false;  // the latest launch is more than memory: what it touches when is as unknown
  std::uint64_t unforeseen(BlockIndex index) const;
  Habit habit_;  // of blocks that the plan has nothing of
  SecondUse second_use_;
  std::uint64_t steps_ = 0;
  std::unique_ptr<Routine> routine_ = std::make_unique<Routine>();  // null: the iterations are alike
  bool by_routine_ = false;                                         // what is gone by, instead of a plan
  std::uint32_t alike_ = 0;                                         // iterations in a row that were as planned
  Agreement plan_agrees_, routine_agrees_;                          // of the latest iterations

  // The search for blocks that left without a plan: how far it has come, in events from the start of this iteration (it
  // may reach into the next), and two sums that must fit in memory: the blocks that exist and are used between the
  // cursor and there, because they are to be here together now; and what is in use there, where some of them have been
  // freed and others were allocated.
  void restart_scan();
  bool demand(std::uint32_t reference, std::uint64_t bytes);
  bool demand(std::uint32_t reference, BlockRange blocks);
  void release(std::uint32_t reference);
  std::uint64_t demand_bytes_max() const { return block_bytes() * frames() / 4 * 3; }
  std::uint64_t scan_ = 0;
  std::uint32_t scan_use_ = 0;
  bool scan_demanded_ = false;  // what that use takes is in the demand
  bool scan_full_ = false;      // what comes next does not fit with the rest
  std::uint64_t present_bytes_ = 0;
  std::uint64_t demand_bytes_ = 0;
  std::vector<std::uint64_t> demanded_;  // by reference of the plan: its part of demand_bytes_
  BlockMarks demanded_blocks_;           // that the search has counted
  std::uint32_t launches_since_restart_ = 0;
};

}  // namespace ebb
