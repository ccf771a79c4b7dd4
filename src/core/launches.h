// Launches: operators that will run, are about to, or are running, and what they touch: announce() stamps their blocks
// and wants the absent ones; retire() lets them leave again. One whose blocks are more than memory is wanted part by
// part if it goes through groups of them (long_launch.h). In which order any other one goes through its tensors, and in
// how many threads, nobody knows, so it is served as it touches them, like a program that announces nothing.
//
// Owned by Core, under the runtime's lock. expect() and announce() allocate, and belong to the program's threads;
// touched() never does.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/earlier_run.h"
#include "core/long_launch.h"
#include "core/mapped_files.h"
#include "core/state.h"
#include "plan/period.h"

namespace ebb {

class Launches {
 public:
  // Of the absent blocks that launches have come to need, how many nobody had begun to fetch, and how many were on
  // their way; and of those that were there, how many had come before anything asked for them.
  struct Needs {
    std::uint32_t absent = 0;
    std::uint32_t arriving = 0;
    std::uint32_t ahead = 0;
    bool any() const { return absent + arriving + ahead > 0; }
  };

  Launches(CoreState& state, MappedFiles& files) : state_(state), files_(files), earlier_run_(state, files) {
    running_.reserve(256);
  }

  // One that will be announced, after those expected before it; begin() when it has been, before it runs; forget() when
  // it is over, or will not come. 0: nothing to say.
  std::uint64_t expect(std::span<const CoreRange> ranges);
  void begin(std::uint64_t expected) { state_.policy.begin(expected); }
  void forget(std::uint64_t expected) { state_.policy.forget(expected); }
  // Returns a ticket for retire(). awaited(): the first block that the launch needs to start, can still come, and has
  // not, or none; of a launch larger than memory its beginning counts.
  std::uint64_t announce(std::uint64_t op, std::span<const CoreRange> ranges);
  BlockIndex awaited(std::uint64_t ticket, std::span<const CoreRange> ranges) const;
  bool waits(std::uint64_t ticket, std::span<const CoreRange> ranges) const { return awaited(ticket, ranges).valid(); }
  void retire(std::uint64_t ticket);
  // From the start of the launch announced last to now the program ran for this long without waiting.
  void ran(std::uint64_t ns) { state_.policy.ran(ns); }
  // The end of an iteration. Until the program has said one, ends are found by how it repeats itself.
  void step();

  // Whether some of it can still come and has not, and the first such block, or none; or flash has lost some of it.
  bool pending(std::span<const CoreRange> ranges) const { return first_pending(ranges).valid(); }
  BlockIndex first_pending(std::span<const CoreRange> ranges) const;
  bool lost(std::span<const CoreRange> ranges) const;
  // A block that was absent, or held back, is touched, and about to be stamped.
  void touched(BlockIndex block);

  EarlierRun& earlier_run() { return earlier_run_; }

  std::uint64_t count() const { return count_; }
  // Since it was last asked.
  Needs take_needs() { return std::exchange(needs_, {}); }
  // The launch announced last that still runs: its ticket and its op, 0 if there is none. Whether it is one that goes
  // through more than memory.
  std::uint64_t running() const { return running_.empty() ? 0 : running_.back().ticket; }
  std::uint64_t running_op() const { return running_.empty() ? 0 : running_.back().op; }
  bool is_long(std::uint64_t ticket) const;
  // Iterations that have ended, told or found.
  std::uint64_t iterations() const { return iterations_; }

 private:
  struct Running {
    std::uint64_t ticket;  // a stamp: ascending
    std::uint64_t op;
    std::uint64_t pinned_from;  // it uses what has this stamp or a later one: its ticket, or if it is served by touch
    bool by_touch() const { return pinned_from != ticket; }
  };

  void note_need(const Block& block);
  void announce_short(std::uint64_t ticket, std::span<const CoreRange> ranges);
  void announce_long(std::uint64_t ticket, std::span<const CoreRange> ranges);
  bool is_by_touch(std::uint64_t ticket) const;
  void progress(BlockIndex block);
  void advance(LongLaunch& launch, std::uint32_t position);
  void find_step(std::uint64_t op);
  void end_iteration();
  void update_pins();

  void add_touch(std::uint64_t op, const CoreRange& range, BlockRange blocks);

  CoreState& state_;
  MappedFiles& files_;
  std::vector<Running> running_;
  Needs needs_;
  std::vector<LongLaunch> long_launches_;
  std::vector<Touch> touches_;
  std::vector<LaunchWindow::Part> parts_;
  EarlierRun earlier_run_;
  Period period_;
  bool steps_are_told_ = false;
  std::uint64_t count_ = 0;
  std::uint64_t iterations_ = 0;
};

}  // namespace ebb
