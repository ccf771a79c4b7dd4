// TimelineWriter: takes samples of a run for the RunTimeline in the statistics page.
//
// Owned by a runtime, under its lock; the mover takes samples. Invariant: takes at most a 200th of the
// time, whatever there is to look at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/core.h"
#include "ebb/waits/run_timeline.h"
#include "runtime/waits/memory_notes.h"

namespace ebb {

class TimelineWriter {
 public:
  void open(RunTimeline* timeline, std::uint64_t now_ns);
  void detach() { timeline_ = nullptr; }
  bool due(std::uint64_t now_ns) const { return timeline_ != nullptr && now_ns >= next_ns_; }
  void take(std::uint64_t now_ns, const Stats& stats, const Core& core, const MemoryNotes& notes);
  // There are other notes: the largest of each kind get a row, which they keep by their names. Allocates, and belongs
  // to the program's threads.
  void follow(MemoryNotes& notes);

 private:
  void halve();
  void add_row(MemoryNotes::Note& note);
  void note_kinds(TimelineSample& sample, std::uint64_t at, const Core& core, const MemoryNotes& notes);

  RunTimeline* timeline_ = nullptr;
  std::uint64_t next_ns_ = 0;
  std::uint32_t rows_ = 0;
  std::array<std::size_t, RunTimeline::kRowsMax> keys_{};  // of rows
  std::array<std::size_t, kTensorKinds> used_{};           // rows by kind
};

}  // namespace ebb
