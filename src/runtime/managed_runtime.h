// ManagedRuntime: the Runtime over real ports. The only place with threads and a lock.
//
// Threads: the program's own call the public functions; the fault thread serves touches of absent blocks; the mover
// submits to flash, hashes, and takes completions. One mutex guards the core; it is held for microseconds, never while
// touching the space, hashing or waiting. Lock order: mutex_, then malloc's. The fault thread never allocates.
//
// fork(): before it, everything in memory is taken home (before_fork) and comes back as it has been written for the
// child; the child gets an empty space and reads its blocks from flash, in its own memory (child_*), where a board
// tells it what has been written since; a pipe tells when the child and its descendants are gone (docs/design/0003).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/ordered_mutex.h"
#include "core/core.h"
#include "ebb/runtime.h"
#include "move/checked_flash.h"
#include "plan/recorder.h"
#include "port/source_files.h"
#include "port/space_memory.h"
#include "runtime/cache/range_cache.h"
#include "runtime/fork/fork_board.h"
#include "runtime/job/job_member.h"
#include "runtime/pace/flash_pace.h"
#include "runtime/pace/launch_clock.h"
#include "runtime/pace/moving_toll.h"
#include "runtime/pace/stall_clock.h"
#include "runtime/pace/starvation_clock.h"
#include "runtime/passes/pass_store.h"
#include "runtime/stats_file.h"
#include "runtime/waits/fault_order.h"
#include "runtime/waits/memory_notes.h"
#include "runtime/waits/timeline_writer.h"
#include "runtime/waits/wait_ledger.h"

namespace ebb {

class ManagedRuntime final : public Runtime, private FileMapper, private JobHolder {
 public:
  struct Parts {
    Core::Config config;
    std::unique_ptr<SpaceMemory> memory;
    std::unique_ptr<RawFlash> flash;
    std::unique_ptr<SourceFiles> files;
    std::unique_ptr<Policy> policy;
    Recorder* recorder = nullptr;    // the same policy, if it records
    std::unique_ptr<JobMember> job;  // null: the budget is this process's own
    std::string flash_description;
    std::string flash_directory;
    std::chrono::nanoseconds starved_max = std::chrono::seconds(5);  // then a fault that nothing can serve fails
  };
  ManagedRuntime(const Options& options, Parts parts);
  ~ManagedRuntime() override;

  void* allocate(std::size_t bytes) override;
  void deallocate(void* data) noexcept override;
  bool manages(const void* data) const noexcept override;
  std::size_t block_bytes() const noexcept override { return options_.block_bytes; }
  std::span<std::byte> adopt(std::span<std::byte> memory) override;
  std::span<std::byte> map_file(const std::string& path, std::uint64_t offset, std::uint64_t bytes) override;
  void unmap_file(std::span<std::byte> memory) override;
  std::size_t release(std::span<std::byte> memory) override { return end_adoption(memory, false); }
  std::size_t discard(std::span<std::byte> memory) override { return end_adoption(memory, true); }
  std::uint64_t announce(std::uint64_t op, std::span<const Access> accesses) noexcept override;
  void retire(std::uint64_t ticket) noexcept override;
  void prepare_thread() noexcept override { memory_->prepare_thread(); }
  bool threads_prepared() const noexcept override { return memory_->threads_prepared(); }
  bool hold(std::span<const Access> accesses) noexcept override;
  void let_go(std::span<const Access> accesses) noexcept override;
  std::uint64_t expect(std::span<const Access> accesses) noexcept override;
  void begin(std::uint64_t expected) noexcept override;
  void forget(std::uint64_t expected) noexcept override;
  bool lost(std::span<const Access> accesses) const noexcept override;
  void name_op(std::uint64_t op, const std::string& name) override;
  bool recording() const noexcept override { return recorder_ != nullptr; }
  bool forked_empty() const noexcept override { return forked_empty_; }
  void step() noexcept override;
  void set_budget(std::uint64_t bytes) override;
  Stats stats() const override;
  WaitReport waits() const override;
  void observe_waits(WaitObserver observer) override;
  void describe(std::span<const MemoryNote> notes) override;
  std::vector<double> step_seconds() const override;
  std::string policy() const override;
  std::string description() const override;

  // Before memory is taken; no lock held. Throws Error where the job has none.
  void enter_job() {
    if (job_ != nullptr && job_->idle()) job_->need();
  }

  // Around fork(), by the forking thread.
  void before_fork();
  void after_fork_parent();
  void after_fork_child();
  // As the process ends: waits until the children of its runtimes have what they are owed. Takes no lock, because it
  // may be called in a signal handler.
  static void before_end_of_process();

 private:
  using Lock = std::unique_lock<OrderedMutex<Rank::kRuntime>>;
  struct Snapshot {
    int pipe = -1;  // end of file: the child and its descendants are gone
    std::vector<ExtentIndex> extents;
    std::unique_ptr<ForkBoard> board;
  };
  struct Adopted {
    std::span<std::byte> given;  // of which these blocks
    std::byte* data;
    BlockRange blocks;
    std::uint64_t offset;          // the allocation that the core knows it as
    std::uint32_t released = 0;    // blocks from the first that are plain memory again
    std::atomic<bool> busy{true};  // a thread is adopting or releasing it
  };
  struct Fault {
    BlockIndex block;
    WaitSubject subject;
    std::uint64_t begun_ns = 0;
  };
  // Who waits: a launch, or with a ticket of 0 an allocation.
  struct Waiter {
    std::uint64_t ticket = 0;
    std::span<const Core::Range> ranges;
    WaitSubject subject;
    WaitCause unless_short = WaitCause::kLate;  // why, if it is not for want of room
    TensorKind unless_noted = TensorKind::kOther;
  };
  static constexpr std::size_t kFaultsMax = 64;  // faulting blocks whose stall is timed at once

  std::byte* map_for_program(int descriptor, std::uint64_t offset, std::uint64_t bytes, bool shared) noexcept override;
  bool unmap_for_program(std::span<std::byte> memory) noexcept override;
  Kinds kinds_for_program(std::span<const std::byte> memory) noexcept override;
  int discard_for_program(std::span<std::byte> memory) noexcept override;
  int discard_in_block(std::span<std::byte> memory, std::span<std::byte> buffer);
  bool renew(Lock& lock, BlockIndex block);
  std::byte* map(Lock& lock, const SourceFile& source, std::uint64_t offset, std::uint64_t bytes, bool shared);
  void recall(std::int32_t file);
  void remember(Lock& lock);
  void tell_left_to_kernel(std::uint64_t bytes, const char* name, const std::string& why);
  void close_if_unused(std::int32_t file);
  void close_files();
  void stop_threads();
  void move_loop();
  void fault_loop();
  void serve_faults(std::span<const BlockIndex> blocks);
  void settle_faults();
  void note_order();
  void renew_changed_files();
  Lock lock_for_faults();
  void close_forming();
  void child_fault_loop();
  void serve_child(BlockIndex index, std::span<std::byte> buffer);
  void after_change();
  void register_for_fork();
  void unregister_for_fork();
  std::uint64_t cached_bytes_max() const;
  void tell_core();
  void end_iteration();
  void tell_time(std::uint64_t now_ns);
  void pump();
  void claim_cache();
  void consider_cache();
  void add_cache(Stats& stats) const;
  bool allocate_in_core(std::size_t bytes, std::uint64_t& offset);
  bool find_places(Lock& lock, std::uint64_t offset);
  void wait_for_launch(Lock& lock, std::uint64_t op, std::uint64_t ticket, std::span<const Core::Range> ranges,
                       Launches::Needs needs);
  void wait_for_frames(Lock& lock, const Core::Range& range);
  void wait_for(Lock& lock, Waiter& waiter);
  BlockIndex awaited(const Waiter& waiter) const;
  void ask_who(Lock& lock, std::uint64_t op, Waiter& waiter);
  WaitCause cause_of(BlockIndex block, WaitCause unless_short) const;
  TensorKind kind_of(BlockIndex block, std::span<const Core::Range> ranges, TensorKind unless_noted) const;
  void begin_fault(BlockIndex block, BlockState before);
  void charge_needs(const WaitSubject& subject, Launches::Needs needs);
  // Whole blocks of addresses, by a function of the core's: what is kept for reuse gives way, and what is busy is
  // waited for: a page of what was freed there is pinned, or frames have to leave.
  template <typename Take>
  Status take_addresses(Lock& lock, Take take) {
    constexpr int kTriesMax = 50;
    constexpr std::chrono::milliseconds kTurn{10};
    Status status = take();
    for (int tries = 0; status != Status::kOk && tries < kTriesMax; ++tries) {
      claim_cache();
      tell_core();
      status = take();
      if (status != Status::kBusy) break;
      pump();
      after_change();
      changed_.wait_for(lock, kTurn);
    }
    return status;
  }
  Adoption& adoption();
  Adopted* reserve_for(std::span<std::byte> given, std::span<std::byte> memory);
  void adopt_blocks(const Adopted& adopted);
  void adopt_block(BlockIndex block);
  std::size_t end_adoption(std::span<std::byte> memory, bool unwanted);
  Adopted* claim_adopted(std::span<const std::byte> memory);
  Adopted* claim_last_adopted();
  void release_blocks(Adopted& adopted);
  void discard_blocks(Adopted& adopted);
  void check_room(const Adopted& adopted);
  bool abandon(Lock& lock, BlockIndex block);
  void bring_home(Lock& lock, BlockIndex block, BlockIndex end);
  void forget_adopted(const Adopted& adopted);
  void settle_adopted();
  void release_all() noexcept;
  void seal_rest(Adopted& adopted);
  bool is_adopted(const void* data) const noexcept;
  bool adopted_range(const Access& access, Core::Range& range) const;
  void grow_flash(Lock& lock);
  void report_lost();
  void release_ended_snapshots();
  void settle_written();
  void finish_forks();
  void count_owed();
  void publish();
  bool lower_budget(Lock& lock, std::uint64_t bytes, std::chrono::milliseconds patience);
  void budget_changed();
  void ask_for_flash(Lock& lock, std::uint64_t bytes);
  std::uint64_t change_budget(std::uint64_t bytes) noexcept override;
  void report(JobMessage& message) noexcept override;
  void flash_changed(std::uint64_t bytes) noexcept override;
  std::uint64_t flash_wanted() noexcept override;
  void write_recording() noexcept;
  Trace::Origin origin() const;
  void dump_state(const char* why) const;
  Stats read_stats() const;
  void* allocate_small(std::size_t bytes);
  void count_small(std::int64_t bytes);
  [[noreturn]] void out_of_memory(std::size_t bytes);
  bool in_space(const void* data) const noexcept { return offset_of(data) < space_bytes_; }
  std::uint64_t offset_of(const void* data) const;
  bool range_of(const Access& access, Core::Range& range) const;
  template <typename F>
  void with_ranges(std::span<const Access> accesses, F&& use) const;
  std::uint64_t announce(std::uint64_t op, std::span<const Core::Range> ranges);
  bool hold(std::span<const Core::Range> ranges);

  Options options_;
  std::unique_ptr<SpaceMemory> memory_;
  std::unique_ptr<SourceFiles> files_;  // outlives what flash_ reads from them
  CheckedFlash flash_;
  std::string flash_description_;
  std::string flash_directory_;
  std::byte* base_;
  std::size_t space_bytes_;

  mutable OrderedMutex<Rank::kRuntime> mutex_;
  OrderedCondition changed_;  // something arrived, left or failed
  Recorder* recorder_;        // owned by the core; null if nothing is recorded
  Core core_;
  mutable RangeCache cache_;
  std::uint64_t calm_ = 0, calm_needed_ = 0;
  std::uint64_t cache_misses_ = 0, cache_trims_ = 0;
  const std::int64_t small_step_;
  StallClock stalls_;
  FlashPace flash_pace_;
  MovingToll moving_toll_;
  StatsFile stats_file_;
  WaitLedger ledger_;
  MemoryNotes notes_;
  TimelineWriter timeline_;
  WaitObserver observer_ = nullptr;
  std::uint64_t waited_ticket_ = 0;  // of the launch that waited last, or goes through more than memory
  WaitSubject waited_;               // and who that is
  std::array<Fault, kFaultsMax> faulting_{};
  std::size_t faulting_count_ = 0;
  std::uint64_t faults_ = 0;
  FaultOrder fault_order_;
  std::uint64_t steps_ = 0;
  LaunchClock launch_clock_;
  StarvationClock starvation_;
  std::uint64_t held_blocks_ = 0;  // counted once for each who holds them
  std::uint64_t lost_reported_ = 0;
  PassStore passes_;
  std::optional<StoredPass> recalled_;                   // what an earlier run did with files mapped
  std::map<std::string, std::int32_t> file_identities_;  // of files mapped until the first iteration
  bool remembered_ = false;                              // what this run does, for later ones
  bool told_left_ = false, told_cached_ = false;         // of files: said once
  bool told_scattered_ = false;                          // likewise, of touches in no order
  std::uint64_t peak_resident_bytes_ = 0;
  std::vector<Snapshot> snapshots_;
  Snapshot forming_{};  // between before_fork and after_fork
  int child_pipe_ = -1;
  std::uint32_t owed_counted_ = 0;  // blocks that children are owed, as the process knows

  // Memory adopted: the list changes under mutex_ and adopted_mutex_ and is read under either; an entry lives at least
  // while it is busy, which takes adopting_ to begin.
  OrderedMutex<Rank::kAdopting> adopting_;
  mutable OrderedMutex<Rank::kAdopted> adopted_mutex_;
  std::vector<std::unique_ptr<Adopted>> adopted_;
  std::atomic<std::size_t> adopted_count_{0};
  Adoption* adoption_ = nullptr;
  bool adopted_changed_ = false;  // owners have unmapped some of it

  std::atomic<std::int64_t> small_bytes_{0};
  std::atomic<std::int64_t> small_kept_{0};
  std::atomic<bool> stopping_{false};
  bool setting_budget_ = false;  // by one thread at a time
  bool forked_empty_ = false;    // this is a child, and the parent had nothing
  bool flash_denied_ = false;    // the job had no more of it
  std::uint64_t granted_bytes_ = 0,
                wished_bytes_ = UINT64_MAX;                // by the job, by the program: the less of them is meant
  std::uint64_t reported_ns_ = 0, reported_stall_ns_ = 0;  // the job's thread's own
  std::unique_ptr<JobMember> job_;
  bool child_ = false;
  std::thread mover_;
  std::thread fault_thread_;
};

}  // namespace ebb
