// JobBroker: divides one budget among the processes of a job. Deterministic: no clock, thread or socket; whoever drives
// it tells it what members say and that time passes (tick(), a few times a second), and delivers the orders it leaves.
//
// A member joins idle, and has nothing until it needs memory. Then it gets its guaranteed minimum at least:
// what is free, or what others give up. With Share::kStalls memory then moves, step by step, from who waits least for
// flash to who waits most; with kEqual all have the same.
//
// Flash is given as it is asked for, and comes back with a member's end.
//
// The budget may change at any time. More is there at once. Less: who has memory is told to give it up in the same
// call, and nobody is given any until the members have obeyed.
//
// Owned by `ebb run`, one thread. Invariant: committed_bytes() <= the budget after every call, and so of flash. A
// member counts with the most that it may hold by any order that it may still go by. After the budget was lowered:
// committed_bytes() only falls, until it is within the budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ebb {

class JobBroker {
 public:
  using Id = std::uint32_t;
  enum class Share : std::uint8_t { kStalls, kEqual };

  static constexpr std::uint32_t kPatienceTicks = 40;  // for a member that is to give something up
  static constexpr std::uint32_t kWaitTicks = 80;      // of one that needs something, until it is refused

  struct Facts {
    std::int32_t rank = -1;
    std::uint32_t ranks = 0;  // that this machine has
    std::uint64_t least_bytes = 0;
    std::uint64_t most_bytes = 0;
  };
  struct Report {
    std::uint64_t serial = 0;
    std::uint64_t held_bytes = 0;
    std::uint64_t resident_bytes = 0;
    std::uint64_t least_bytes = 0;
    std::uint32_t stall_permille = 0;
    bool stuck = false;
  };
  struct Order {
    Id id = 0;
    bool refused = false;
    bool flash = false;       // not memory: `bytes` of flash in all
    bool given_back = false;  // less, and not for another member: the budget is less
    std::uint64_t serial = 0;
    std::uint64_t bytes = 0;
  };
  struct Member {
    enum class State : std::uint8_t { kIdle, kWaiting, kActive };
    Id id = 0;
    Facts facts;
    State state = State::kIdle;
    std::uint64_t serial = 0;
    std::uint64_t raised = 0;    // the serial of the newest order by which it got more
    std::uint64_t granted = 0;   // by the newest order
    std::uint64_t held = 0;      // the most that it may hold now; never less than `granted`
    std::uint64_t promised = 0;  // to be granted as soon as there is so much
    std::uint64_t flash = 0;     // it may use so much for as long as it lives
    std::uint64_t resident = 0;
    std::uint64_t least = 0;
    std::uint32_t stall = 0;    // of 1000, smoothed
    std::uint64_t stalls = 0;   // the sum of what it reported since the last tick
    std::uint32_t reports = 0;  // so often
    std::uint32_t ticks = 0;    // since it began to wait, or was told to give something up
    std::uint32_t rest = 0;     // ticks until it is asked again
    std::uint64_t turn = 0;     // of those that wait

    bool giving() const { return held > granted; }
    bool has_rank() const { return facts.rank >= 0 && facts.ranks > 0; }
  };

  JobBroker(std::uint64_t budget_bytes, Share share, std::uint64_t flash_bytes = 0);

  void join(Id id, const Facts& facts);
  void need(Id id);
  // So much more flash, or what there is; answered at once.
  void need_flash(Id id, std::uint64_t bytes);
  void report(Id id, const Report& report);
  void leave(Id id);
  void set_budget(std::uint64_t bytes);
  void tick();

  std::vector<Order> take_orders();
  std::uint64_t budget_bytes() const { return budget_; }
  std::uint64_t committed_bytes() const;
  std::uint64_t resident_bytes() const;
  // That the members cannot do without: no budget below it is ever reached.
  std::uint64_t least_bytes() const;
  const std::map<Id, Member>& members() const { return members_; }
  void validate() const;

 private:
  static std::uint64_t cost(const Member& member);
  static std::uint64_t above_least(const Member& member);
  static std::uint64_t can_give(const Member& member);
  std::uint64_t most(const Member& member) const { return std::min(member.facts.most_bytes, budget_); }
  std::uint64_t free_bytes() const;
  std::uint64_t coming_bytes() const;
  std::uint64_t equal_share(const Member& member) const;
  std::uint64_t first_share(const Member& member) const;
  Member* next_waiting();
  void order(Member& member, std::uint64_t bytes, bool given_back = false);
  void refuse(Member& member);
  using Givers = std::vector<std::pair<Member*, std::uint64_t>>;  // each with the most that it can give
  void take(std::uint64_t bytes, Givers givers, bool given_back = false);
  void take_for(std::uint64_t bytes, const Member& taker);
  void lower_to_budget();
  void note_committed();
  void serve();
  bool serve(Member& member);
  void keep_promises();
  void move_to_equal();
  void move_to_stalled();
  void move_from(Member& needy);

  std::uint64_t budget_;
  std::uint64_t ceiling_;  // of what is committed: the budget, or more until it has been reached
  const std::uint64_t flash_bytes_;
  std::uint64_t step_ = 0;
  const Share share_;
  std::map<Id, Member> members_;
  std::vector<Order> orders_;
  std::uint64_t turns_ = 0;
  std::uint32_t calm_ticks_ = 0;  // until memory that somebody uses moves again
};

}  // namespace ebb
