// What the parts of the core share: its configuration, the space and its heaps, frames, extents, policy and engine, and
// the two counters that order everything. Core::Config says what a core is made for, Core::Range names bytes of the
// space.
//
// Owned by Core, under the runtime's lock. Its parts (allocations.h, launches.h, budget.h, ...) hold references to it.
#pragma once

#include <cstdint>
#include <memory>

#include "alloc/extent_pool.h"
#include "alloc/frame_pool.h"
#include "alloc/heaps.h"
#include "move/engine.h"
#include "plan/launch_window.h"
#include "port/backing_memory.h"
#include "space/page_table.h"

namespace ebb {

struct CoreConfig {
  std::uint64_t block_bytes = 0;          // a power of two
  std::uint64_t budget_bytes = 0;         // frames, small allocations and tables together: the most it will ever be
  std::uint32_t blocks = 0;               // size of the space
  std::uint32_t blocks_beyond = 0;        // of that, at its end (alloc/heaps.h)
  std::uint32_t extents = 0;              // most blocks on flash
  std::uint32_t frames_ahead = 0;         // made before they are needed, by a driver that has nothing else to do
  std::uint32_t queue_depth = 32;         // of the flash queue
  std::uint32_t host_extents = 0;         // blocks in host memory, where that is a tier of its own
  std::uint64_t cache_bytes_a_block = 0;  // of the tables of ranges kept for reuse
  std::uint64_t buffer_bytes = 0;         // of a driver's own, between memory and flash
  bool tables_in_budget = true;           // false: the core's own memory is not of the device tier
  bool host_notes = false;  // without faults: what leaves for host memory is copied only if it has changed
  bool faults = true;       // false: a touch of an absent block is fatal, so a launch keeps all that it announced
  double host_in_ns = 0;    // how long one block takes from host memory
  double flash_in_ns = 1'500'000;  // and from flash
  double flash_out_ns = 0;         // to get there; 0: as long
  double flash_both_ns = 0;        // as in Pace
  double toll_ns = 0;              // as in Pace

  std::uint64_t space_bytes() const { return blocks * block_bytes; }
  // Frames that the budget is good for: what BackingMemory must provide.
  std::uint32_t frames() const { return frames(budget_bytes); }
  std::uint32_t frames(std::uint64_t bytes) const;
};

// Bytes of the space.
struct CoreRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocation = 0;  // offset of the allocation it lies in, if `in_allocation`
  bool in_allocation = false;
  std::uint32_t group = 0;
  bool written = false;
  bool overwritten = false;  // all of it, before anything of it is read
};

struct CoreState {
  CoreState(const CoreConfig& config, BackingMemory& memory, std::unique_ptr<Policy> policy);

  BlockRange blocks_of(std::uint64_t offset, std::uint64_t bytes) const;
  // Those that lie in it with all their bytes; none if there are none.
  BlockRange whole_blocks_of(std::uint64_t offset, std::uint64_t bytes) const;
  // Counts as used now.
  void stamp(BlockRange blocks);
  std::uint32_t dead(BlockRange blocks) const;  // how many belong to no allocation
  void note_peak();

  CoreConfig config;
  LaunchWindow policy;
  PageTable table;
  FramePool frames;
  ExtentPool extents;
  Engine engine;
  Heaps heaps;
  std::uint64_t clock = 0;          // stamps, not time
  std::uint64_t serial = 0;         // of allocations
  std::uint32_t live_blocks = 0;    // but for those of mapped files, which have a place already
  std::uint32_t mapped_blocks = 0;  // and these
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t peak_bytes = 0;  // without mapped files
  std::uint64_t allocations = 0, reused = 0;
};

// In flight, lanes and reserves, as they follow from the number of frames that these bytes are good for.
Engine::Limits limits_of(const CoreConfig& config, const Policy& policy, std::uint64_t budget_bytes);

}  // namespace ebb
