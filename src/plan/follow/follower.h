// Follower: the part that policies with knowledge of the iteration share. Every iteration is recorded, and followed in
// the recording of an earlier one of its kind: each event of the program is matched to an event there, which tells when
// each block is needed again. Which kind comes is foreseen from what came after the last one before; when the program
// does something else, and another kind begins in the same way, that one is followed instead. What the program did
// before its first iteration is part of that recording, and cut off when the second one does not repeat it. Where the
// program leaves every recording for good, and in its first iteration, following() is false and a policy falls back to
// recency. Where the events repeat, but on other tensors, as with a mixture of experts, nothing is foreseen of these
// before they are used in an iteration.
// A guide (guide/guide.h) takes the place of a recording from the first event until it is over or lost.
//
// Time is counted in events over all iterations: the n-th event of iteration i is at base() + n.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "plan/follow/agreement.h"
#include "plan/follow/iterations.h"
#include "plan/follow/next_uses.h"
#include "plan/guide/guide.h"
#include "plan/planner/planner.h"
#include "plan/policy.h"
#include "plan/recording.h"

namespace ebb {

class Follower : public Policy {
 public:
  bool listens() const override { return true; }
  bool take_guide(std::unique_ptr<Guide> guide) override;

  void budget(std::uint64_t block_bytes, std::uint32_t frames) override;
  void allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void freed(std::uint64_t allocation) override;
  void launched(std::uint64_t op, std::span<const Touch> touches) override;
  void ran(std::uint64_t ns) override { recording_.add_duration(ns); }
  void step() override;
  void foretell(const Recording& iteration) override { iterations_.foretell(iteration); }
  const Recording* latest() const override {
    return iterations_.latest() == Iterations::kNone ? nullptr : &iterations_[iterations_.latest()];
  }
  // Belady's rule (1966): worth least is what is needed last.
  std::uint64_t keep(BlockIndex index, const Block& block) const override;
  std::uint64_t deviations() const override { return deviations_; }
  std::uint64_t guided() const override { return guided_; }

 protected:
  using Position = Recording::Position;
  static constexpr std::uint64_t kHorizon = 1ull << 50;          // later than any event
  static constexpr std::uint64_t kFar = kHorizon - 1;            // not needed again, as far as is known
  static constexpr std::uint64_t kUnforeseen = kHorizon - kFar;  // worth of such a block

  // A launch uses, besides what it has made, something whose use before that was at `earlier`.
  virtual void reused(Position /*earlier*/) {}
  // A launch was matched to `position` of the plan: its uses there, and what it touches now, in the same order.
  virtual void matched(Position /*position*/, std::span<const Touch> /*touches*/) {}
  // Something was allocated that is at `position` of the plan.
  virtual void matched_allocation(Position /*position*/, std::uint64_t /*allocation*/) {}
  // Room in the tables by block, before they are needed where nothing may be allocated.
  virtual void cover(BlockRange blocks);
  // An iteration has begun, or turned out to be of another kind. `changed`: the plan is not the one followed until now.
  virtual void began(bool /*changed*/) {}

  bool following() const { return following_; }
  // How far this iteration was the plan's.
  Agreement agreement() const;
  // The iteration so far.
  const Recording& recording() const { return recording_; }
  const Recording& plan() const {
    if (guide_ != nullptr) return guide_->recording();
    return kind_ == Iterations::kNone ? none_ : iterations_[kind_];
  }
  // Names the plan: a number less than kPlansMax, and when it was given.
  static constexpr std::uint32_t kGuidePlan = Iterations::kKindsMax;
  static constexpr std::uint32_t kPlansMax = kGuidePlan + 1;
  std::uint32_t kind() const { return guide_ != nullptr ? kGuidePlan : kind_; }
  std::uint64_t kind_version() const { return guide_ != nullptr ? 1 : iterations_.version(kind_); }
  std::uint64_t base() const { return base_; }
  std::uint64_t now() const { return base_ + cursor_; }
  Position cursor() const { return cursor_; }
  std::uint64_t next_use(BlockIndex block) const { return next_uses_.of(block); }
  void expect(BlockIndex block, std::uint64_t when) { next_uses_.expect(block, when, now()); }
  // What a plan may count on: the frames but for those in transit.
  PlanLimits plan_limits() const;
  std::uint64_t block_bytes() const { return block_bytes_; }
  std::uint32_t frames() const { return frames_; }
  const std::map<std::uint64_t, BlockRange>& live() const { return live_; }
  // The blocks of a live allocation, none if it is gone.
  BlockRange blocks_of(std::uint64_t allocation) const;
  // Something lasting that is used in some iterations and not in others, as an expert of a mixture.
  bool comes_and_goes(std::uint64_t allocation) const { return absent_.contains(allocation); }
  // Those of a use of the plan, in this iteration or the next; none if they do not exist yet.
  BlockRange blocks_of(const Recording::Use& use, bool next_iteration) const;
  std::uint32_t blocks_seen() const { return next_uses_.blocks(); }

 private:
  // Of match.cc: where in the plan an event is, by its signature, and a launch by its operator and operands.
  enum class Kinship : std::uint8_t { kSame, kOther, kUnknown };
  Position match(std::uint64_t signature, std::uint64_t op, std::span<const Touch> touches);
  Position find_allocation(Position from, std::uint64_t signature) const;
  Position find_launch(Position from, std::uint64_t signature, std::uint64_t op, std::span<const Touch> touches,
                       bool telling) const;
  Kinship kinship(const Recording::Event& event, std::span<const Touch> touches) const;
  std::span<const Touch> align(std::span<const Recording::Use> uses, std::span<const Touch> touches);
  void count_uses();
  // Whether a reference of the plan stands for what is older than the iteration.
  bool is_old(std::uint32_t reference) const { return !plan().made_here(plan().reference(reference).serial); }
  bool switch_kind();
  bool begin_later();

  void see_unknown(std::span<const Touch> touches);
  void launched_by_guide(std::uint64_t op, std::span<const Touch> touches);
  void end_guide();
  void see_first(const Recording::Use& use, Position position);
  void see_next(const Recording::Use& use, const Touch& touch);
  std::uint64_t next_use_after(std::uint32_t index, Position later, Position first) const;
  void see_use(std::uint64_t allocation, BlockRange blocks, std::uint64_t when) {
    next_uses_.see(allocation, blocks, when, now());
  }
  void begin_counts();
  void follow(std::uint32_t kind);
  void doubt(std::uint32_t reference, std::uint64_t serial);
  void doubt_absent();
  // Whether which tensor a reference of the plan stands for is not known yet.
  bool unforeseen(std::uint32_t reference) const {
    return plan().reference(reference).varies() && bound_[reference] == 0;
  }
  void bind_launches();
  void bind_uses(const Recording::Event& event, const Recording::Event& here);
  void rebuild();
  std::uint64_t resolve(std::uint32_t reference, bool next_iteration) const;

  std::unique_ptr<Guide> guide_;  // null: none, or no longer
  Recording recording_;           // of this iteration
  Recording none_;
  Iterations iterations_;
  std::uint32_t kind_ = Iterations::kNone;  // which of them is followed
  std::uint32_t switches_ = 0;              // in this iteration
  bool following_ = false;
  std::uint64_t base_ = 0;
  Position cursor_ = 0;  // the next event expected
  std::uint32_t misses_ = 0;
  std::uint32_t launches_ = 0;   // of this iteration
  Agreement agreement_;          // of that
  double planned_ = 0;           // blocks of older tensors that launches of the plan use
  std::uint32_t try_later_ = 0;  // begin_later(): when so many launches have been made
  std::uint64_t iterations_over_ = 0;
  std::uint64_t deviations_ = 0;
  std::uint64_t guided_ = 0;
  std::uint64_t next_serial_ = 1;
  std::uint64_t block_bytes_ = 0;
  std::uint32_t frames_ = 0;

  std::map<std::uint64_t, BlockRange> live_;      // by serial
  std::map<std::uint64_t, std::uint8_t> absent_;  // lasting, and not used in an iteration of late: its doubt
  std::vector<std::uint64_t> bound_;              // by reference of the plan: the serial it has in this iteration, or 0
  NextUses next_uses_{kFar};
  std::vector<BlockIndex> first_blocks_;  // scratch of launched()
  std::vector<std::uint32_t> uses_;       // by reference of the plan: how often in an iteration
  std::vector<Touch> aligned_;            // what align() returns
  std::vector<bool> seen_, seen_pieces_;  // scratch of rebuild()
};

// belady: knows what is needed last and evicts it, but fetches only what is needed now. Clairvoyant eviction without
// migration ahead: what separates it from foresight is the value of the schedule.
class Belady final : public Follower {
 public:
  std::string_view name() const override { return "belady"; }
};

}  // namespace ebb
