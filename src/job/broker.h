// JobBroker: divides one budget among the processes of a job. Deterministic: no clock, thread or socket; whoever drives
// it tells it what members say and that time passes (tick(), a few times a second), and delivers the orders it leaves.
//
// A member joins idle, and has nothing until it needs memory. Then it gets its guaranteed minimum at least:
// what is free, or what others give up. With Share::kStalls memory then moves, step by step, from who waits least for
// flash to who waits most; with kEqual all have the same.
//
// Flash is given as it is asked for, and comes back with a member's end.
//
// Owned by `ebb run`, one thread. Invariant: committed_bytes() <= the budget after every call, and so of flash. A
// member counts with the most that it may hold by any order that it may still go by.
#pragma once

#include <cstdint>
#include <map>
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
    bool flash = false;  // not memory: `bytes` of flash in all
    std::uint64_t serial = 0;
    std::uint64_t bytes = 0;
  };
  struct Member {
    enum class State : std::uint8_t { kIdle, kWaiting, kActive };
    Id id = 0;
    Facts facts;
    State state = State::kIdle;
    std::uint64_t serial = 0;
    std::uint64_t granted = 0;   // by the newest order
    std::uint64_t held = 0;      // the most that it may hold now; never less than `granted`
    std::uint64_t promised = 0;  // to be granted as soon as there is so much
    std::uint64_t flash = 0;     // it may use so much for as long as it lives
    std::uint64_t resident = 0;
    std::uint64_t least = 0;
    std::uint32_t stall = 0;  // of 1000, smoothed
    std::uint32_t ticks = 0;  // since it began to wait, or was told to give something up
    std::uint32_t rest = 0;   // ticks until it is asked again
    std::uint64_t turn = 0;   // of those that wait

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
  void tick();

  std::vector<Order> take_orders();
  std::uint64_t budget_bytes() const { return budget_; }
  std::uint64_t committed_bytes() const;
  const std::map<Id, Member>& members() const { return members_; }
  void validate() const;

 private:
  static std::uint64_t cost(const Member& member);
  static std::uint64_t can_give(const Member& member);
  std::uint64_t free_bytes() const { return budget_ - committed_bytes(); }
  std::uint64_t coming_bytes() const;
  std::uint64_t equal_share(const Member& member) const;
  std::uint64_t first_share(const Member& member) const;
  Member* next_waiting();
  void order(Member& member, std::uint64_t bytes);
  void refuse(Member& member);
  void take(std::uint64_t bytes, const Member& taker);
  void serve();
  bool serve(Member& member);
  void keep_promises();
  void move_to_equal();
  void move_to_stalled();
  void move_from(Member& needy);

  const std::uint64_t budget_;
  const std::uint64_t flash_bytes_;
  const std::uint64_t step_;
  const Share share_;
  std::map<Id, Member> members_;
  std::vector<Order> orders_;
  std::uint64_t turns_ = 0;
  std::uint32_t calm_ticks_ = 0;  // until memory that somebody uses moves again
};

}  // namespace ebb
