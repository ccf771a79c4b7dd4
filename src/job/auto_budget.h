// AutoBudget: what the budget of a job should be as other programs come and go (`ebb run --memory auto`).
// Deterministic: no clock and no I/O; whoever drives it says several times a second what there is, and what time it is.
//
// All memory that is free, but for a reserve, and what the job holds already, is the job's: its *room*. The budget
// falls below the room at once, and further the faster the room shrinks; it grows in steps, and only to what has been
// there for a while, longer after each time that this was wrong. Where programs wait for memory although there seems to
// be some, a part of the room is given up for as long as that lasts.
//
// Owned by `ebb run`, one thread. Invariant: the least <= bytes() <= the most; and after update() bytes() <= the room,
// unless the job cannot do with that.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "ebb/units.h"

namespace ebb {

class AutoBudget {
 public:
  static constexpr std::uint64_t kLeastBytes = 64 * kMiB;  // whatever else there is
  static constexpr std::uint64_t kCalmMs = 5'000;          // for which there must be more before it is taken
  static constexpr std::uint64_t kCalmMostMs = 80'000;     // the same, after taking it was wrong several times

  // The machine, or a control group with a limit.
  struct Level {
    std::uint64_t total_bytes = 0;
    std::uint64_t available_bytes = 0;  // page cache that can be dropped is available
  };
  struct Sample {
    std::uint64_t now_ms = 0;
    std::vector<Level> levels;
    std::uint64_t held_bytes = 0;   // by the job, at each level
    std::uint64_t least_bytes = 0;  // that it can do with
    // Time in which some program waited for memory, since ever: on this machine, and in our control group.
    std::optional<std::uint64_t> machine_stall_us;
    std::optional<std::uint64_t> group_stall_us;
  };

  explicit AutoBudget(std::uint64_t most_bytes) : most_(most_bytes) {}

  // What is kept free at a level: a sixteenth, at least 512 MiB, but no more than an eighth.
  static std::uint64_t reserve_of(std::uint64_t total_bytes);
  // Without anything, nothing is known: all.
  static std::uint64_t room_of(const Sample& sample);

  // The budget from now on.
  std::uint64_t update(const Sample& sample);
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t most_bytes() const { return most_; }

 private:
  void feel_pressure(const Sample& sample, std::uint64_t room);
  std::uint64_t falls_by(const Sample& sample, std::uint64_t room);
  std::uint64_t calm_room(std::uint64_t now_ms, std::uint64_t room);
  void shrink(std::uint64_t now_ms, std::uint64_t bytes);
  void grow(std::uint64_t now_ms, std::uint64_t calm_room, std::uint64_t margin);

  const std::uint64_t most_;
  std::uint64_t bytes_ = 0;
  bool started_ = false;

  using Rooms = std::deque<std::pair<std::uint64_t, std::uint64_t>>;  // when, and how much
  Rooms past_;                                                        // of the last moments
  Rooms lows_;  // the least since then, of the time that counts for growing
  std::uint64_t started_ms_ = 0;
  std::uint64_t calm_ms_ = kCalmMs;  // how long there must have been more
  std::uint64_t grew_ms_ = 0;
  std::uint64_t shrank_ms_ = 0;
  bool grown_ = false;  // since it last shrank

  std::uint64_t pressure_ms_ = 0;  // when it was last measured
  std::uint64_t pressed_ms_ = 0;   // when there last was some
  std::optional<std::uint64_t> machine_stall_us_;
  std::optional<std::uint64_t> group_stall_us_;
  std::uint64_t given_up_ = 0;  // of the room, for it
};

}  // namespace ebb
