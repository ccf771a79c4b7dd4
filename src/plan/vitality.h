// Vitality: when each tensor of a trace is born, used and dead, and the inactive periods in between, in which its bytes
// may be elsewhere (G10, Zhang et al., MICRO 2023, section 4.2). Times are ideal: launch after launch without waiting.
//
// A tensor lives from its first launch to its last, unless `alloc` and `free` lines say otherwise; a persistent one
// always. A launch that writes a tensor without reading it replaces its content, so before such a launch, before the
// first use and after the last there is no content worth moving (Dead::kVanishes).
//
// A sequence does not repeat, so nothing goes on from its end to its beginning: what a persistent tensor holds is there
// before its first use, and dead after its last. Of a sequence the last part alone can be analysed; then what was used
// before that part is there in the same way.
//
// A pure function of the trace; what it returns is owned by the caller and only read afterwards.
// Invariants: working_set_bytes[k] <= vital_bytes[k] <= live_bytes[k] for every launch k; periods are sorted by
// `after`, then by tensor; a period never covers a use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/trace.h"

namespace ebb {

// What becomes of content that no launch reads any more. Who knows the whole trace can let it vanish; a runtime under a
// program that may still look at it has to keep it until it is freed or overwritten: it is vital too.
enum class Dead : std::uint8_t { kVanishes, kStays };

struct Vitality {
  using TensorIndex = Trace::TensorIndex;
  using LaunchIndex = Trace::LaunchIndex;
  static constexpr std::uint32_t kNone = Trace::kNone;

  struct Use {
    LaunchIndex launch = 0;
    bool reads = false;
    bool writes = false;
  };
  struct Life {
    std::uint64_t bytes = 0;      // in whole granules
    LaunchIndex born = 0;         // alive at launches [born, dies)
    LaunchIndex dies = 0;         // exclusive
    std::uint32_t first_use = 0;  // uses of this tensor, one a launch and in order: uses[first_use, first_use + count)
    std::uint32_t count = 0;
    bool persistent = false;  // alive at every launch
    bool written = false;     // by any launch
  };
  // Tensor unused strictly between launch `after` and launch `before`, which uses it or, with Dead::kStays, is the
  // first after it was freed.
  struct Period {
    TensorIndex tensor = 0;
    LaunchIndex after = 0;  // of a sequence also the number of launches: since before the first
    LaunchIndex before = 0;
    bool wraps = false;   // over the end: `before` belongs to the next iteration; persistent tensors only, also those
                          // used once. Of a sequence: since before the first launch
    bool needed = false;  // `before` reads what is there; otherwise the content is dead and nothing returns
    // The launch that made the content, possibly in the previous iteration; for a tensor that comes from outside, its
    // first use; kNone: persistent and never written, or there before a sequence. Periods of a tensor with equal `made`
    // hold the same content: a copy that was written out for one is good for the others.
    LaunchIndex made = kNone;
    std::uint64_t bytes = 0;
    std::uint64_t ns = 0;  // from the end of `after` to the start of `before`
  };

  std::vector<Life> tensors;  // as in the trace
  std::vector<Use> uses;
  std::vector<Period> periods;

  std::vector<std::uint64_t> start_ns;           // launches + 1: when each would start; the last: when all have ended
  std::vector<std::uint64_t> live_bytes;         // at each launch: of all tensors alive
  std::vector<std::uint64_t> vital_bytes;        // of those, used now or with content that matters later
  std::vector<std::uint64_t> working_set_bytes;  // of those, used now
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t peak_vital_bytes = 0;
  std::uint64_t working_set_bytes_max = 0;
  LaunchIndex peak_live_launch = 0;        // the first with peak_live_bytes
  LaunchIndex working_set_max_launch = 0;  // likewise
  std::uint64_t granule_bytes = 1;
  Dead dead = Dead::kVanishes;
  bool sequence = false;                // launches do not repeat
  std::uint32_t unknown_durations = 0;  // launches without a time; they count as 0 ns

  std::uint64_t ideal_ns() const { return start_ns.empty() ? 0 : start_ns.back(); }
  std::span<const Use> uses_of(TensorIndex tensor) const {
    return std::span(uses).subspan(tensors[tensor].first_use, tensors[tensor].count);
  }
};

// Tensors are rounded up to whole granules: 1 for none, 4096 to compare with G10, the block size for the runtime.
// Of a sequence the launches from `first` on; here their indices begin at 0. first < trace.launches.size(), or both 0.
Vitality analyse(const Trace& trace, std::uint64_t granule_bytes = 1, Dead dead = Dead::kVanishes,
                 Trace::LaunchIndex first = 0);

}  // namespace ebb
