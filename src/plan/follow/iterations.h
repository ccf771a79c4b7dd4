// Iterations: the kinds of iteration that a program has run, each with its recording, and which kind came after which,
// and after how many of it in a row: a training step, the step before an evaluation, the last and smaller batch, the
// steps of a denoiser and the one before the next image. A program with more kinds than are kept forgets those that it
// has not run for longest.
//
// Owned by a policy. Invariant: at most kKindsMax recordings; a kind keeps its number as long as it is kept.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/recording.h"

namespace ebb {

class Iterations {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t kKindsMax = 4;
  static constexpr std::size_t kEventsMax = std::size_t{1} << 19;  // in all recordings together

  // Takes the iteration that is over; returns its kind. `known` tells whether it was there before, with the same
  // events; the newer recording is kept.
  std::uint32_t add(Recording& recording, bool& known);
  // In place of add(), where the iteration that is over is not kept. Returns the kind that was foretold, or kNone.
  std::uint32_t skip();
  // One that the program has not run yet: it is expected when the iteration that runs now is over.
  void foretell(const Recording& recording);
  bool was_foretold(std::uint32_t kind) const { return kind != kNone && kind == foretold_now_; }
  // The kind of the iteration that ended last; kNone: that one is not kept.
  std::uint32_t latest() const { return latest_; }
  const Recording& operator[](std::uint32_t kind) const { return entries_[kind].recording; }
  // Of what a kind was taken to be only the part from `first` on comes again.
  void cut(std::uint32_t kind, Recording::Position first);
  // The kind that came the last time after as many in a row of the kind that was added last, that kind itself if other
  // kinds came after fewer or more of it; or what was foretold. Call it only after add().
  std::uint32_t expected() const;
  // Another kind than `besides` that begins with the same events as `recording`, which is not over; kNone: none.
  std::uint32_t that_begins_as(const Recording& recording, std::uint32_t besides) const;
  // Changes whenever a number is given to another kind.
  std::uint64_t version(std::uint32_t kind) const { return entries_[kind].version; }

 private:
  struct Entry {
    Recording recording;
    std::uint64_t version = 0;
    std::uint64_t used = 0;
    std::uint32_t in_a_row = 0;       // the last time, until another kind came
    std::uint32_t successor = kNone;  // which one
  };
  std::uint32_t slot_for(const Recording& recording);

  std::vector<Entry> entries_;
  std::uint32_t latest_ = kNone;
  std::uint32_t foretold_ = kNone;      // expected after this iteration
  std::uint32_t foretold_now_ = kNone;  // expected to be this one
  std::uint32_t in_a_row_ = 0;          // of the latest kind, until now
  std::uint64_t clock_ = 0;             // in iterations
};

}  // namespace ebb
