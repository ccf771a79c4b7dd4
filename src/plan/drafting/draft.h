// Drafter: which pieces are absent when, how much of each, on which tier, and when they come back.
//
// Belady's rule (the piece needed last leaves, as many of its blocks as must) chooses the absences; each is begun as
// soon as its piece is idle, not when the frame is needed; each ends, its fetch begins, early enough for its lane to
// bring everything in the order in which it is needed, and earlier where there is room; and the absences that host
// memory cannot hold go to flash, those that begin first. What is best besides depends on which lane binds: that is a
// matter of taste, and a draft is made for one.
//
// Owned by make_plan(). Deterministic; some milliseconds a draft for 10,000 launches.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "plan/drafting/absence.h"
#include "plan/drafting/event_blocks.h"
#include "plan/drafting/pieces.h"
#include "plan/drafting/plan_limits.h"
#include "plan/drafting/taste.h"
#include "plan/recording.h"

namespace ebb {

class Drafter {
 public:
  Drafter(const Recording& recording, const PlanLimits& limits);

  void draft(const Taste& taste);
  // To the same taste, from absences of a draft before: of pieces whose absences are urgent so many blocks more stay,
  // in place of as many of others.
  void shift(std::span<const PieceAbsence> absences, const std::vector<bool>& urgent, double blocks);

  const Pieces& pieces() const { return pieces_; }
  // Of every event without waits, over two iterations.
  std::span<const double> start_ns() const { return computed_ns_; }
  // That exist at every event, of the draft made last; and its absences in the order of their touches.
  std::span<const std::uint64_t> live_blocks() const { return live_blocks_; }
  const std::vector<PieceAbsence>& absences() const { return absences_; }
  // Blocks that never leave if so much of memory is for state, by piece.
  std::vector<std::uint32_t> staying(double state_share) const;
  // Whether there is what Taste::state_share is for.
  bool has_state() const { return state_blocks_ > 0; }
  // Whether there is what Taste::over_factor is for.
  bool has_over() const { return has_over_; }
  double block_ns(Tier tier) const { return tier == Tier::kHost ? limits_.host_in_ns : limits_.flash_in_ns; }

 private:
  using Position = Recording::Position;
  static constexpr std::uint32_t kNone = 0xffffffff;

  // A piece, while the iteration is gone through; in blocks.
  struct Item {
    std::uint32_t present = 0;
    std::uint32_t touch = kNone;  // the latest
    Position touched_at = 0;
    bool live = false;
    bool old = false;        // its content is from an iteration before
    bool returning = false;  // on its way back: what is needed sooner may still take its place
    std::uint64_t next = Pieces::kNever;
    std::uint64_t rank = 0;  // while it is in idle_
  };

  void draft_rounds();
  void find_state();
  void find_over();
  template <typename Of>
  std::vector<std::uint32_t> part_of_each(double part, Of&& of) const;
  void begin();
  void run(bool steady);
  void change(const Pieces::Change& change);
  void launch(Position position);
  void return_early(Position position);
  void shrink(bool steady);
  void queue(std::uint32_t piece);
  void unqueue(std::uint32_t piece) { idle_.erase({items_[piece].rank, piece}); }
  bool dies_late(const Item& item) const;
  bool leaves_when_over(const Item& item) const { return item.touch != kNone && over_[item.touch]; }
  void finish();
  std::vector<std::int64_t> absent_blocks() const;
  EventBlocks present_blocks() const;
  void choose_tiers();
  void schedule();
  void pace();
  void claim_early(const std::vector<std::uint32_t>& order, const std::vector<double>& lead_ns);
  void return_earlier(PieceAbsence& absence, double lead_ns, EventBlocks& present) const;
  std::uint32_t blocks_of(std::uint32_t piece) const { return pieces_[piece].blocks.count; }

  const PlanLimits limits_;
  const Position size_;
  const Pieces pieces_;
  const std::vector<double> computed_ns_;
  std::vector<double> start_ns_;  // by which fetches are scheduled
  Taste taste_;
  std::vector<Item> items_;
  std::vector<bool> over_;                                  // by touch: what it holds is over before it is freed
  bool has_over_ = false;                                   // and is used again before that
  std::vector<bool> state_;                                 // by piece: changed, and unused for most of an iteration
  std::uint64_t state_blocks_ = 0;                          // in all of those
  std::vector<std::uint32_t> staying_;                      // by piece: blocks that never leave (Taste::state_share)
  std::vector<std::uint32_t> floors_;                       // by piece: blocks that leave last (Taste::absent_share)
  std::vector<std::vector<std::uint32_t>> early_;           // by event: touches whose pieces begin to return
  std::set<std::pair<std::uint64_t, std::uint32_t>> idle_;  // present pieces by rank, the first to leave last
  Position now_ = 0;
  std::uint64_t present_ = 0;
  std::uint64_t live_ = 0;
  std::vector<std::uint64_t> live_blocks_;  // by event, in the steady iteration
  std::vector<PieceAbsence> absences_;
  std::vector<std::uint32_t> by_touch_;
};

}  // namespace ebb
