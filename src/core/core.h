// Core: the deterministic heart of a Runtime: addresses, frames, extents, page table, policy and engine, tied together.
// It has no clock, thread, lock or device; the runtime drives it with real ones, the simulator with virtual ones.
//
// Its faces, each in a header of its own: allocations() and launches() for the program, adopted() for memory that it
// has mapped itself, files() for files that it maps, budget() for what may be where; here what a driver of it does, and
// what a fork needs.
//
// Life of a launch: announce() stamps its blocks and wants the absent ones; pump() starts transfers; the driver takes
// take_requests() to flash and brings back complete(); waits() turns false; the launch runs; retire().
//
// Threads: one at a time (the runtime's lock). fault(), complete() and pump() never allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/adopted_ranges.h"
#include "core/allocations.h"
#include "core/budget.h"
#include "core/launches.h"
#include "core/mapped_files.h"
#include "core/state.h"
#include "ebb/stats.h"
#include "ebb/units.h"
#include "port/flash_queue.h"

namespace ebb {

class Core {
 public:
  using Config = CoreConfig;
  using Range = CoreRange;

  static constexpr std::uint32_t kFramesMin = FramePool::kFramesMin;
  // The smallest budget: these frames, and beside them a block and tables.
  static constexpr std::uint64_t budget_bytes_min(std::uint64_t block_bytes) {
    return (kFramesMin + 1) * block_bytes + kMiB;
  }

  Core(const Config& config, BackingMemory& memory, std::unique_ptr<Policy> policy);

  Allocations& allocations() { return allocations_; }
  const Allocations& allocations() const { return allocations_; }
  AdoptedRanges& adopted() { return adopted_; }
  MappedFiles& files() { return files_; }
  const MappedFiles& files() const { return files_; }
  Launches& launches() { return launches_; }
  const Launches& launches() const { return launches_; }
  Budget& budget() { return budget_; }
  const Budget& budget() const { return budget_; }

  void fault(BlockIndex block);
  void complete(const FlashCompletion& completion) { state_.engine.complete(completion); }
  void pump();
  std::size_t take_requests(std::span<FlashRequest> requests) { return state_.engine.take_requests(requests); }
  // Whether the driver has something to do: take_requests() or Budget::extents_wanted().
  bool has_work() const { return state_.engine.has_requests() || budget_.extents_wanted() > 0; }
  // How long flash has been taking for a block, as in Pace, for plans yet to be made, 0: not known; and what launches
  // lose for each that is moved.
  void set_flash_pace(double in_ns, double out_ns, double both_ns, double toll_ns = 0);

  // For a child process: Engine::freeze() first, then snapshot() keeps the copies below of all other blocks as they are
  // until release_snapshot(). Those of frozen blocks come with Engine::written(); retain() keeps one for a second
  // child.
  std::vector<ExtentIndex> snapshot();
  void retain(ExtentIndex extent) { state_.extents.retain(extent); }
  void release_snapshot(std::span<const ExtentIndex> extents);

  Engine& engine() { return state_.engine; }
  const Engine& engine() const { return state_.engine; }
  const PageTable& table() const { return state_.table; }
  const ExtentPool& extents() const { return state_.extents; }
  // A file that no mapping, transfer or child needs any more, or FilePlace::kNoFile: its opener may close it.
  std::int32_t take_unused_file() { return state_.extents.files().take_unused(); }
  const Policy& policy() const { return state_.policy; }
  std::uint64_t block_bytes() const { return state_.config.block_bytes; }
  BlockRange blocks_of(std::uint64_t offset, std::uint64_t bytes) const { return state_.blocks_of(offset, bytes); }
  BlockRange whole_blocks_of(std::uint64_t offset, std::uint64_t bytes) const {
    return state_.whole_blocks_of(offset, bytes);
  }
  // Whether nothing is anywhere but in memory.
  bool all_here() const;

  // Everything of Stats that is known here: all but faults, stalls and steps.
  void fill(Stats& stats) const;
  void validate();

 private:
  CoreState state_;
  Budget budget_;
  Allocations allocations_;
  AdoptedRanges adopted_;
  MappedFiles files_;
  Launches launches_;
};

}  // namespace ebb
