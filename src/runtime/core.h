// Core: the deterministic heart of a Runtime: addresses, frames, extents, page table, policy and engine, tied together.
// It has no clock, thread, lock or device; the runtime drives it with real ones, the simulator with virtual ones.
//
// Life of a launch: announce() stamps its blocks and wants the absent ones; pump() starts transfers; the driver takes
// take_requests() to flash and brings back complete(); pending() turns false; the launch runs; retire().
//
// Threads: one at a time (the runtime's lock). fault(), complete() and pump() never allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "alloc/extent_pool.h"
#include "alloc/frame_pool.h"
#include "alloc/heap.h"
#include "ebb/stats.h"
#include "ebb/status.h"
#include "move/engine.h"
#include "plan/launch_window.h"
#include "plan/period.h"
#include "plan/policy.h"
#include "port/backing_memory.h"
#include "port/flash_queue.h"
#include "runtime/long_launch.h"
#include "space/page_table.h"

namespace ebb {

class Core {
 public:
  struct Config {
    std::uint64_t block_bytes = 0;          // a power of two
    std::uint64_t budget_bytes = 0;         // frames, small allocations and tables together
    std::uint32_t blocks = 0;               // size of the space
    std::uint32_t extents = 0;              // most blocks on flash
    std::uint32_t frames_ahead = 0;         // made before they are needed, by a driver that has nothing else to do
    std::uint32_t queue_depth = 32;         // of the flash queue
    std::uint32_t host_extents = 0;         // blocks in host memory, where that is a tier of its own
    std::uint64_t cache_bytes_a_block = 0;  // of the tables of ranges kept for reuse
    bool tables_in_budget = true;           // false: the core's own memory is not of the device tier
    bool faults = true;     // false: a touch of an absent block is fatal, so a launch keeps all that it announced
    double host_in_ns = 0;  // how long one block takes from host memory
    double flash_in_ns = 1'500'000;  // and from flash
    double flash_out_ns = 0;         // to get there; 0: as long
    double flash_both_ns = 0;        // as in Pace
  };
  // Bytes of the space.
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t allocation = 0;  // offset of the allocation it lies in, if `in_allocation`
    bool in_allocation = false;
    std::uint32_t group = 0;
    bool written = false;
    bool overwritten = false;  // all of it, before anything of it is read
  };

  static constexpr std::uint32_t kFramesMin = FramePool::kFramesMin;

  Core(const Config& config, BackingMemory& memory, std::unique_ptr<Policy> policy);
  // Frames that a budget is good for: what BackingMemory must provide.
  static std::uint32_t frames_of(const Config& config);
  // Its heaps, empty: for less than half a block, and for the rest.
  static Heap small_heap_of(const Config& config);
  static Heap large_heap_of(const Config& config);

  // kNoMemory: neither the budget nor flash can hold it.
  Status allocate(std::uint64_t bytes, std::uint64_t& offset);
  void deallocate(std::uint64_t offset);
  std::uint64_t allocation_bytes(std::uint64_t offset) const;

  // Ranges that the runtime keeps for reuse instead of deallocating them (runtime/cache): to the policy they die, and
  // are born again; to the engine they stay live, with their frames, until they are released. bury() ends a range that
  // was, and returns its bytes. release() never allocates.
  void died(std::uint64_t offset);
  void born(std::uint64_t offset);
  std::uint32_t turns(std::uint64_t offset) const;  // how often it has died and been born
  void release(std::uint64_t offset, std::uint64_t bytes);
  void release(std::uint64_t offset) { release(offset, allocation_bytes(offset)); }
  std::uint64_t bury(std::uint64_t offset);
  // While there are any, no block in use is sent out: pump() again when it is true that they hold what is short, and
  // they have been released.
  void set_spare(bool spare) { engine_.set_spare(spare); }
  bool short_of_frames() const { return engine_.short_of_frames(); }
  // Whether nothing is anywhere but in memory.
  bool all_here() const;
  // What the tables of whoever keeps such ranges take of the budget.
  void set_cache_bytes(std::uint64_t bytes);

  // Whole blocks of addresses for memory that the program has mapped itself and that is adopted where it is: reserve(),
  // then adopt() and disown(), or abandon(), block by block as the engine has them, then unreserve(). `offset` names
  // the allocation that they are for the policy. kNoMemory: no places for so many blocks; kBusy: try again.
  Status reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset);
  void unreserve(BlockRange blocks, std::uint64_t offset);
  bool adopt(BlockIndex block);
  // Wants a block of it in memory, as the most recently used; it stays there until some others have been wanted so.
  void want(BlockIndex block);
  // Wants blocks behind it, which may leave again.
  void want_ahead(BlockIndex block);

  // A launch that will be announced, after those expected before it; begin() when it has been, before it runs; forget()
  // when it is over, or will not come. 0: nothing to say.
  std::uint64_t expect(std::span<const Range> ranges);
  void begin(std::uint64_t expected) { policy_.begin(expected); }
  void forget(std::uint64_t expected) { policy_.forget(expected); }
  // Returns a ticket for retire(). launch_pending(): whether something that the launch needs to start can still come
  // and has not; of a launch larger than memory this is its beginning.
  std::uint64_t announce(std::uint64_t op, std::span<const Range> ranges);
  bool launch_pending(std::uint64_t ticket, std::span<const Range> ranges) const;
  void retire(std::uint64_t ticket);
  // From the start of the launch announced last to now the program ran for this long without waiting.
  void ran(std::uint64_t ns) { policy_.ran(ns); }
  bool pending(std::span<const Range> ranges) const;
  // Whether flash has lost some of it.
  bool lost(std::span<const Range> ranges) const;
  // The end of an iteration. Until the program has said one, ends are found by how it repeats itself.
  void step();

  void fault(BlockIndex block);
  void complete(const FlashCompletion& completion) { engine_.complete(completion); }
  void pump();
  std::size_t take_requests(std::span<FlashRequest> requests) { return engine_.take_requests(requests); }
  // Whether the driver has something to do: take_requests() or extents_wanted().
  bool has_work() const { return engine_.has_requests() || extents_wanted() > 0; }

  // A frame worth making before it is needed, or none; the driver has its memory created, for which it need not hold
  // the lock, and says what came of it.
  bool wants_frame_ahead() const;
  bool making_frame_ahead() const { return frames_.making_ahead() > 0; }
  FrameIndex begin_frame_ahead() { return wants_frame_ahead() ? frames_.begin_ahead() : FrameIndex::none(); }
  void end_frame_ahead(FrameIndex frame, Status status) {
    frames_.end_ahead(frame, status);
    if (status != Status::kOk) config_.frames_ahead = 0;  // not now: who needs one makes it
  }

  // How many extents should exist, if more than there are; the driver makes room and says how many there are now.
  std::uint32_t extents_wanted() const;
  void set_extents(std::uint32_t count, bool more_to_come);

  // The part of the budget that small allocations take, and the part that is kept free for them, which is no less. They
  // may be made once over_budget() is false: as many frames have left.
  void set_small_bytes(std::uint64_t bytes, std::uint64_t kept);
  // How long flash has been taking for a block, as in Pace, for plans yet to be made; 0: not known.
  void set_flash_pace(double in_ns, double out_ns, double both_ns);
  std::uint32_t frames_limit() const { return frames_.limit(); }
  bool over_budget() const { return frames_.over(); }

  // For a child process: Engine::freeze() first, then snapshot() keeps the copies below of all other blocks as they are
  // until release_snapshot(). Those of frozen blocks come with Engine::written(); retain() keeps one for a second
  // child.
  std::vector<ExtentIndex> snapshot();
  void retain(ExtentIndex extent) { extents_.retain(extent); }
  void release_snapshot(std::span<const ExtentIndex> extents);

  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }
  const PageTable& table() const { return table_; }
  const ExtentPool& extents() const { return extents_; }
  const Policy& policy() const { return policy_; }
  std::uint64_t block_bytes() const { return config_.block_bytes; }
  BlockRange blocks_of(std::uint64_t offset, std::uint64_t bytes) const;
  // Those that lie in it with all their bytes; none if there are none.
  BlockRange whole_blocks_of(std::uint64_t offset, std::uint64_t bytes) const;

  // Everything of Stats that is known here: all but faults, stalls and steps.
  void fill(Stats& stats) const;
  std::uint64_t resident_bytes() const;
  void validate();

 private:
  void find_step(std::uint64_t op);
  void announce_short(std::uint64_t ticket, std::span<const Range> ranges);
  void announce_long(std::uint64_t ticket, std::span<const Range> ranges);
  void notice_progress(BlockIndex block);
  void advance(LongLaunch& launch, std::uint32_t position);
  Heap& heap_of(std::uint64_t offset) { return small_heap_.holds(offset) ? small_heap_ : large_heap_; }
  const Heap& heap_of(std::uint64_t offset) const { return small_heap_.holds(offset) ? small_heap_ : large_heap_; }
  void populate(BlockRange blocks);
  void note_peak();
  std::uint32_t new_blocks(BlockRange blocks) const;
  bool has_places(std::uint64_t blocks, std::uint64_t unused) const;
  std::uint64_t table_slack() const;
  std::uint32_t frames_beside(std::uint64_t tables) const;
  std::uint64_t table_bytes() const;
  void apply_limit();
  void update_pins();

  Config config_;
  LaunchWindow policy_;
  PageTable table_;
  FramePool frames_;
  ExtentPool extents_;
  Engine engine_;
  Heap small_heap_;  // below half a block
  Heap large_heap_;
  std::vector<std::uint64_t> running_;  // tickets, which are stamps: ascending
  std::vector<LongLaunch> long_launches_;
  std::vector<Touch> touches_;
  std::vector<LaunchWindow::Part> parts_;
  Period period_;
  bool steps_are_told_ = false;
  std::uint64_t clock_ = 0;  // stamps, not time
  std::uint64_t serial_ = 0;
  std::uint64_t small_bytes_ = 0;
  std::uint64_t small_kept_ = 0;
  std::uint64_t cache_bytes_ = 0;
  std::uint64_t tables_applied_ = 0;
  std::uint32_t extents_limit_;
  std::uint32_t live_blocks_ = 0;
  std::uint64_t peak_live_bytes_ = 0;
  std::uint64_t launches_ = 0, allocations_ = 0, reused_ = 0;
};

}  // namespace ebb
