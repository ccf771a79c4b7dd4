// Stats: one consistent reading of a Runtime's counters. Bytes and nanoseconds, cumulative unless said otherwise.
#pragma once

#include <array>
#include <cstdint>

namespace ebb {

struct Stats {
  static constexpr std::uint64_t kScatteredMin = 256;  // fewer tell nothing

  // Memory now.
  std::uint64_t budget_bytes = 0;
  std::uint64_t resident_bytes = 0;       // frames that exist, small allocations and our own tables
  std::uint64_t peak_resident_bytes = 0;  // the most it ever was
  std::uint64_t small_bytes = 0;          // ordinary memory under managed_bytes_min
  std::uint64_t shared_bytes = 0;         // shared with other processes, as PyTorch's share_memory_(); in no budget
  std::uint64_t peak_shared_bytes = 0;
  std::uint64_t live_bytes = 0;  // bytes of managed allocations that exist
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t flash_bytes = 0;  // extents in use
  std::uint64_t flash_limit_bytes = 0;
  std::uint64_t cached_bytes = 0;  // of freed ranges that are kept, frames and all, for the next of their size
  // Traffic.
  std::uint64_t fetched_bytes = 0;     // read from flash
  std::uint64_t evicted_bytes = 0;     // written to flash
  std::uint64_t clean_bytes = 0;       // evicted without a write: the copy on flash was still true
  std::uint64_t prefetched_bytes = 0;  // of those fetched: before anything asked for them
  std::uint64_t wasted_bytes = 0;      // of those prefetched: evicted again before anything asked for them
  std::uint64_t rewritten_bytes = 0;   // of mapped files: what the program wrote to, and that lives on flash since
  // Events.
  std::uint64_t launches = 0;        // operators announced that touch managed memory
  std::uint64_t faults = 0;          // touches of absent blocks
  std::uint64_t scattered = 0;       // of those: of what is on flash, in no order, as a sort or a shuffle makes them
  std::uint64_t rescues = 0;         // evictions called back by a touch
  std::uint64_t allocations = 0;     // managed ones
  std::uint64_t reused = 0;          // of those: from the cache, or at addresses that had been in use
  std::uint64_t cache_hits = 0;      // of those: by the thread that freed it, without a lock
  std::uint64_t cache_misses = 0;    // managed allocations that went through the core
  std::uint64_t cache_trims = 0;     // ranges taken from the cache because memory was short
  std::uint64_t io_errors = 0;       // transfers that failed and were retried
  std::uint64_t corrupt_blocks = 0;  // blocks whose checksum did not match, never handed out
  std::uint64_t deviations = 0;      // times the program left the recorded iteration
  std::uint64_t guided = 0;          // launches that a guide foretold
  // Time.
  std::uint64_t stall_ns = 0;  // wall time in which at least one thread of the program waited for us
  std::uint64_t steps = 0;
  // Of a GPU: how long launches have waited for the driver to change what is mapped where, and for what the GPU still
  // has in use.
  std::uint64_t mappings = 0;
  std::uint64_t mapping_ns = 0;
  std::uint64_t device_waits = 0;
  std::uint64_t device_wait_ns = 0;
};

// Every counter by its name, as the summary of a run and Python's stats() have them.
struct StatsField {
  const char* name;
  std::uint64_t Stats::*counter;
};
inline constexpr std::array<StatsField, 36> kStatsFields{{
    {"budget_bytes", &Stats::budget_bytes},
    {"resident_bytes", &Stats::resident_bytes},
    {"peak_resident_bytes", &Stats::peak_resident_bytes},
    {"small_bytes", &Stats::small_bytes},
    {"shared_bytes", &Stats::shared_bytes},
    {"peak_shared_bytes", &Stats::peak_shared_bytes},
    {"live_bytes", &Stats::live_bytes},
    {"peak_live_bytes", &Stats::peak_live_bytes},
    {"flash_bytes", &Stats::flash_bytes},
    {"flash_limit_bytes", &Stats::flash_limit_bytes},
    {"fetched_bytes", &Stats::fetched_bytes},
    {"evicted_bytes", &Stats::evicted_bytes},
    {"clean_bytes", &Stats::clean_bytes},
    {"prefetched_bytes", &Stats::prefetched_bytes},
    {"wasted_bytes", &Stats::wasted_bytes},
    {"rewritten_bytes", &Stats::rewritten_bytes},
    {"launches", &Stats::launches},
    {"faults", &Stats::faults},
    {"scattered", &Stats::scattered},
    {"rescues", &Stats::rescues},
    {"allocations", &Stats::allocations},
    {"reused", &Stats::reused},
    {"cached_bytes", &Stats::cached_bytes},
    {"cache_hits", &Stats::cache_hits},
    {"cache_misses", &Stats::cache_misses},
    {"cache_trims", &Stats::cache_trims},
    {"io_errors", &Stats::io_errors},
    {"corrupt_blocks", &Stats::corrupt_blocks},
    {"deviations", &Stats::deviations},
    {"guided", &Stats::guided},
    {"stall_ns", &Stats::stall_ns},
    {"steps", &Stats::steps},
    {"mappings", &Stats::mappings},
    {"mapping_ns", &Stats::mapping_ns},
    {"device_waits", &Stats::device_waits},
    {"device_wait_ns", &Stats::device_wait_ns},
}};
static_assert(kStatsFields.size() * sizeof(std::uint64_t) == sizeof(Stats), "every counter has its name");

}  // namespace ebb
