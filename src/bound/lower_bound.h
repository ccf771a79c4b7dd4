// LowerBound: how fast one iteration, or a sequence of them, can be at best on a given machine, whatever schedules the
// transfers.
//
// A linear program over the fluid relaxation of the schedule: bytes in place of tensors, slots of time in place of
// moments. Every schedule in strict timing, in which a launch starts when its last byte has arrived and keeps its
// working set until it ends, is one of its feasible points, so its optimum is a proved bound for the mean iteration
// time of a long run. Of a sequence it bounds the time from the first launch that was analysed to the end of the last,
// whatever was in memory when it began. docs/design/0005-lower-bound.md states and proves both.
//
// Pure and deterministic; no state is kept between calls.
#pragma once

#include <array>
#include <cstdint>

#include "plan/machine.h"
#include "plan/vitality.h"

namespace ebb {

enum class Resource : std::uint8_t { kDeviceMemory, kHostMemory, kLinkOut, kLinkIn, kFlashWrite, kFlashRead, kFlash };
inline constexpr std::size_t kResources = 7;
const char* name(Resource resource);

// What leaves device memory has to be written below: each time, as in G10, or only if the copy below is out of date, as
// in a runtime that keeps clean copies. The second bound is never above the first.
enum class Copies : std::uint8_t { kWritten, kKeptClean };

struct BoundOptions {
  Copies copies = Copies::kKeptClean;
  // Into how many slots the time is cut, roughly and never more than 4 times that: shorter launches share one. Fewer is
  // faster and looser, and always a bound; with as many as launches, each launch has its own.
  std::uint32_t resolution = 500;
};

struct Bound {
  enum class Outcome : std::uint8_t {
    kFits,     // all content that matters fits in device memory: nothing has to move
    kBounded,  // the bound is that of the linear program
    kStreams,  // a launch touches more than device memory holds: strict timing cannot run it
    kNoRoom,   // device memory, and what host and flash can take, are too small together
    kUnknown,  // the solver gave up: the bound is the kernel time
  };
  Outcome outcome = Outcome::kUnknown;
  std::uint64_t ideal_ns = 0;  // kernel time
  std::uint64_t stall_ns = 0;  // the least waiting
  std::uint64_t total_ns() const { return ideal_ns + stall_ns; }

  // What cannot be in device memory, or in device and host memory together, at the fullest launch: at least this much
  // crosses in each direction, unless it stays away for good.
  std::uint64_t must_leave_bytes = 0;
  std::uint64_t must_leave_host_bytes = 0;

  // By how many nanoseconds the bound falls for each 1 % more of a resource, to first order.
  std::array<double, kResources> gain_ns{};
  Resource binding = Resource::kDeviceMemory;  // the lane that gains most; kDeviceMemory if nothing stalls
  Vitality::LaunchIndex streaming_launch = Vitality::kNone;  // kStreams: which
  std::uint32_t slots = 0;                                   // of the linear program; 0: none was needed
};

Bound lower_bound(const Vitality& vitality, const Machine& machine, const BoundOptions& options = {});

}  // namespace ebb
