// SimDriver: a whole runtime in the simulated world. It plays the part that threads play in a real one: it takes the
// core's requests to flash, brings back completions, makes extents, serves the faults of the program and gives up on
// those that nothing can serve; all on one thread and in virtual time.
//
// What the core promises at its seams is checked here at every turn: whoever waits is woken, memory stays within the
// budget, page table and memory agree, data is lost only where the fault plan damaged it, and a fault starves only when
// really no block can leave. A broken promise ends the process, as a failed EBB_CHECK does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string_view>

#include "core/core.h"
#include "move/checked_flash.h"
#include "sim/event_log.h"
#include "sim/event_queue.h"
#include "sim/fault_plan.h"
#include "sim/sim_flash.h"
#include "sim/sim_memory.h"

namespace ebb {

class SimDriver {
 public:
  struct Config {
    std::uint64_t block_bytes = 4096;
    std::uint32_t frames = 16;
    std::uint32_t blocks = 256;
    std::uint32_t blocks_beyond = 0;  // of those
    std::uint32_t extents = 64;
    std::uint32_t host_extents = 0;  // host memory is the first part of the simulated device
    std::uint32_t depth = 32;
    std::uint32_t frames_ahead = 0;
    std::uint64_t seed = 1;
    std::string_view policy = "window";
    FaultPlan faults;
    std::uint64_t nth_fault = NthFault::kNever;
  };
  enum class Touch : std::uint8_t {
    kPresent,
    kLost,     // the content could not be read back
    kStarved,  // no block could leave to make room
  };
  struct Counters {
    std::uint64_t turns = 0, faults = 0, starved = 0, lost = 0, stale_failures = 0;
    std::uint64_t kept_taken = 0, kept_released = 0;
    FaultCounts lost_by;  // blocks, by the fault that took their content
  };

  explicit SimDriver(const Config& config);

  Core& core() { return core_; }
  SimMemory& memory() { return memory_; }
  SimFlash& device() { return *device_; }
  CheckedFlash& flash() { return flash_; }
  const EventLog& log() const { return log_; }
  EventLog& log() { return log_; }
  const VirtualClock& clock() const { return clock_; }
  const NthFault& nth_fault() const { return nth_; }
  const Counters& counters() const { return counters_; }

  // As ManagedRuntime has them: they wait, in virtual time, for what they announce or allocate.
  Status allocate(std::uint64_t bytes, std::uint64_t& offset);
  void deallocate(std::uint64_t offset);
  std::uint64_t announce(std::uint64_t op, std::span<const Core::Range> ranges);
  void set_small_bytes(std::uint64_t bytes);
  // Or the least that can be, if that is more.
  void set_budget(std::uint64_t bytes);
  // The same as deallocate(), but the range is kept for reuse until frames are short; and one that is kept, with this
  // many bytes rounded up, instead of allocate(): false if there is none.
  void keep(std::uint64_t offset);
  bool take_kept(std::uint64_t bytes, std::uint64_t& offset);
  // The core learns of that only now: until then the program may have used it.
  void tell_taken(std::uint64_t offset);
  void give_up_kept();
  void pump();
  // Memory of the program's own comes under the budget, block by block, and leaves it. False: nothing can leave to make
  // room for it; or, of release(), its content is lost too.
  Status reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset);
  bool adopt(BlockIndex block, std::span<const std::byte> content);
  bool release(BlockIndex block, std::span<std::byte> content);
  // Its owner has unmapped it, or wants nothing of it any more.
  void abandon(BlockIndex block);
  // A file of the program's, as MappedFiles has it.
  Status map(const FilePlace& place, std::uint64_t bytes, std::uint64_t& first);
  void unmap(BlockRange blocks);
  // A frame that nobody needs yet, if the core would like one: made while so many turns pass.
  void make_frame_ahead(std::uint32_t turns);
  // False: not at this moment.
  bool renew(BlockIndex block);
  // The program touches a block: what comes of it.
  Touch touch(BlockIndex block);
  // Another thread touches an absent block and waits; settle() sees to it that it is not forgotten.
  void touch_elsewhere(BlockIndex block);
  // Its fault is told of when the block is there already: it has to be woken all the same.
  void touch_late(BlockIndex block);
  // Writes everything to flash, as before a fork; false if some of it cannot be written.
  bool flush();

  // Faults to come are drawn anew.
  void reseed(std::uint64_t seed);

  // One turn of the mover's loop; false when there was nothing to do.
  bool turn();
  // Turns until nothing is under way and nobody waits.
  void settle();
  // After that, where nothing runs or is pinned: what the budget has no room for has left, as far as it can.
  void check_within_budget();
  // Whether the core still has files open that nobody has mapped.
  bool all_files_closed();
  bool idle() const;

  // Compares page table and memory, and validates the core.
  void validate();

 private:
  // Whoever waits, for whatever it is, gets it in so many turns and, once the device answers, in so much time: every
  // request has at most three tries, and there are never more than some hundreds.
  class Patience {
   public:
    explicit Patience(const SimDriver& driver) : driver_(driver), since_ns_(driver.clock_.now_ns()) {}
    void spend();  // a turn

   private:
    static constexpr std::uint32_t kTurnsMax = 20'000;
    static constexpr std::uint64_t kWaitMaxNs = 60'000'000'000;
    const SimDriver& driver_;
    std::uint64_t since_ns_;
    std::uint32_t turns_ = 0;
  };
  // A fault is given up on when it has starved for so many turns; what is busy by chance is free long before.
  static constexpr std::uint32_t kStarvedTurnsMax = 64;

  static SimMemory::Config memory_config(const Config& config, std::uint64_t seed);
  std::unique_ptr<SimFlash> make_device(const Config& config, std::uint64_t seed);
  void release_kept();
  void bury_released();
  void grow();
  void update_limit();
  void complete(const FlashCompletion& completion);
  void serve_starved();
  bool can_leave(BlockIndex block) const;
  void check_told(BlockIndex index) const;
  void check_starved() const;
  void close_files();

  Rng seeds_;
  FaultPlan faults_;
  NthFault nth_;
  EventLog log_;
  VirtualClock clock_;
  SimMemory memory_;
  SimFlash* device_ = nullptr;  // owned by flash_
  CheckedFlash flash_;
  Core core_;
  std::vector<FlashRequest> in_flight_;  // by token
  std::vector<std::uint64_t> kept_;      // offsets of ranges kept for reuse
  std::vector<std::uint64_t> released_;  // of those that are so no longer
  std::set<std::int32_t> files_;         // that the core keeps open
  std::uint64_t small_bytes_ = 0;
  std::uint64_t budget_bytes_;
  std::uint32_t extents_;
  std::uint32_t host_extents_;
  std::uint32_t starved_turns_ = 0;
  Counters counters_;
};

}  // namespace ebb
