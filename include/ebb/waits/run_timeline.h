// RunTimeline: what memory was used for, and what moved, over the time of a run: as it lies in the statistics page.
//
// One writer, some ten samples a second; when there are as many as there is room for, every second one is dropped and
// they are taken half as often. A reader of a running program may see one sample half written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ebb/waits/waits.h"

namespace ebb {

struct TimelineSample {  // of one moment; bytes
  std::uint64_t at_ns;   // since the runtime was opened
  std::uint64_t budget;
  std::uint64_t resident;  // all that counts in the budget
  std::uint64_t small;     // of that: ordinary memory for small tensors
  std::uint64_t live;      // of managed tensors, wherever they are
  std::uint64_t flash;
  std::uint64_t fetched, evicted;  // until then
  std::uint64_t stall_ns;
  std::uint64_t steps;
  std::uint64_t kind_live[kTensorKinds];      // of `live`, but for kOther, which is the rest
  std::uint64_t kind_resident[kTensorKinds];  // of those, in memory
};

struct TimelineRow {  // of a large tensor that lives long
  static constexpr std::uint8_t kAbsent = 255;
  char name[96];
  std::uint64_t bytes;
  std::uint64_t kind;
  std::uint8_t percent[512];  // of it in memory at each sample; kAbsent: there was no such tensor
};

struct RunTimeline {
  static constexpr std::size_t kSamplesMax = sizeof(TimelineRow::percent);
  static constexpr std::size_t kRowsMax = 64;
  std::uint64_t opened_ns;      // on the system's monotonic clock, as the moments of LongWait
  std::uint64_t first_step_ns;  // when the first of the steps that are counted began; 0: none has
  std::uint64_t every_ns;
  std::atomic<std::uint64_t> samples;
  std::atomic<std::uint64_t> rows;
  TimelineSample sample[kSamplesMax];
  TimelineRow row[kRowsMax];
};

}  // namespace ebb
