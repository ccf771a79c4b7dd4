// ManagedRuntime: the cache of freed ranges, as the core sees it. How it works: docs/design/0012.
#include <algorithm>

#include "base/check.h"
#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

// Below this the tables of the cache would be a part of the budget that is felt.
constexpr std::uint64_t kBudgetMin = 16 * kMiB;
// May be held by any program.
constexpr std::uint64_t kAlwaysHeld = 64 * kMiB;
// Allocations and frees without a shortage until the cache opens again: twice as many each time.
constexpr std::uint64_t kCalmMin = 256;
constexpr std::uint64_t kCalmMax = std::uint64_t{1} << 16;

}  // namespace

// As much as the program itself has had at once: sizes that come back are all held, and those that never do, as of
// tensors that grow with each token, do not fill memory that nobody has needed.
std::uint64_t ManagedRuntime::cached_bytes_max() const {
  const std::uint64_t budget = core_.budget().bytes();  // of now
  if (budget < kBudgetMin) return 0;
  return std::min(budget / 2, std::max(kAlwaysHeld, core_.allocations().peak_bytes()));
}

// What the program's threads have freed and allocated without the core. Before anything else that the policy is told,
// in whose eyes it happened before. Not on the mover or the fault thread: it allocates. Lock held.
void ManagedRuntime::tell_core() {
  cache_.tell(core_.allocations());
#ifdef EBB_VALIDATE
  cache_.validate();
#endif
}

// Lock held; never allocates.
void ManagedRuntime::pump() {
  report_lost();  // before who waits for it fails, and perhaps the process with it
  core_.pump();
  if (core_.engine().short_of_frames()) {
    claim_cache();
    core_.pump();
  }
  if (!core_.engine().starved().valid()) starvation_.end();
}

// Everything held is given up, and the cache closed for some time. Lock held; never allocates.
void ManagedRuntime::claim_cache() {
  cache_trims_ +=
      cache_.claim_all([&](std::uint64_t offset, std::uint64_t bytes) { core_.allocations().release(offset, bytes); });
  core_.engine().set_spare(false);
  calm_ = 0;
  calm_needed_ = std::clamp(2 * calm_needed_, kCalmMin, kCalmMax);
}

// The calling thread allocates, or frees, through the core. Lock held.
void ManagedRuntime::consider_cache() {
  const std::uint64_t held_max = cached_bytes_max();
  if (held_max == 0) return;
  cache_.limit(held_max);
  if (!cache_.is_open()) {
    if (++calm_ < calm_needed_ || !core_.all_here()) return;
    cache_.open();
    core_.engine().set_spare(cache_.is_open());
  }
  cache_.join();
  core_.budget().set_cache_bytes(cache_.table_bytes());
}

void ManagedRuntime::add_cache(Stats& stats) const {
  const RangeCache::Counters counters = cache_.counters();
  stats.live_bytes -= std::min(stats.live_bytes, counters.idle_bytes);
  stats.allocations += counters.hits;
  stats.reused += counters.hits;
  stats.cache_hits = counters.hits;
  stats.cache_misses = cache_misses_;
  stats.cache_trims = cache_trims_;
  stats.cached_bytes = counters.held_bytes;
}

}  // namespace ebb
