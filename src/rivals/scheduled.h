// Scheduled: what the published planners have in common. Whole tensors leave after the launches that a plan names, and
// come back from the launches that it names, each in the order of the program. What the plan has not foreseen comes
// when a launch needs it, all of it in one batch, and takes the place of what came first, whoever needs that next.
//
// The queues hold room for all entries before ahead() and behind() take from them, which never allocate.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/follow/follower.h"
#include "plan/planner/planner.h"
#include "rivals/arrivals.h"

namespace ebb {

class Scheduled : public Follower {
 public:
  // `unplanned`: where blocks go that leave because their frame is needed.
  explicit Scheduled(Tier unplanned) : unplanned_(unplanned) {}

  void arrived(BlockIndex block) override;
  std::uint64_t keep(BlockIndex index, const Block&) const override { return arrivals_.of(index); }
  Tier destination(BlockIndex block) const override;
  Ahead ahead(const PageTable& table, Tier below) override;
  BlockIndex behind(const PageTable& table, Tier below, std::uint64_t pinned_from) override;

 protected:
  // Absences of whole tensors: the number of their blocks does not matter.
  virtual Plan make_schedule(const Recording& recording, const PlanLimits& limits) const = 0;
  // Whether what returns may take the place of what came first, or only free frames.
  virtual bool returns_displace() const = 0;
  void cover(BlockRange blocks) override;
  void began(bool changed) override;

 private:
  // A tensor that leaves, or comes back.
  struct Journey {
    std::uint64_t before = 0;       // the event that needs it
    std::uint64_t return_from = 0;  // the event from which on it may be fetched
    std::uint64_t allocation = 0;
    BlockRange blocks;
    Tier tier = Tier::kFlash;
    Position left_at = 0;                 // the launch that used it last
    std::array<std::uint32_t, 2> done{};  // blocks dealt with; of those that return, by the tier that they are in
  };
  // First in, first out. `heads`: how far it has been worked through, by tier where that differs.
  struct Queue {
    std::vector<Journey> journeys;
    std::array<std::size_t, 2> heads{};
  };

  void matched(Position position, std::span<const Touch> touches) override;
  void wake_up(Position position);
  static void tidy(Queue& queue, std::size_t head, std::size_t more);

  Tier unplanned_;
  Plan schedule_;
  Arrivals arrivals_;
  std::vector<Journey> idle_;     // their launch is the latest: they leave from the next on
  std::array<Queue, 2> leaving_;  // by tier below
  std::vector<Journey> away_;     // heap: the one to return first on top
  Queue returning_;
  std::vector<Tier> destination_;  // by block
};

}  // namespace ebb
