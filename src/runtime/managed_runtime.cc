// ManagedRuntime: the program's side: allocation, launches, waiting, statistics. Threads: managed_runtime_threads.cc;
// fork: fork/.
#include "runtime/managed_runtime.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/clock.h"
#include "base/internal_thread.h"
#include "base/processors.h"
#include "runtime/pace/processor_clock.h"

namespace ebb {
namespace {

constexpr std::size_t kAlignment = 64;
// Room for small allocations is kept in steps of this share of the budget, to keep the lock off their path.
constexpr std::uint64_t kSmallSteps = 128;
constexpr std::int64_t kSmallStepMax = std::int64_t{1} << 20;
constexpr std::chrono::seconds kMakeRoomMax{2};  // then they are made nevertheless: an allocation must not hang
constexpr std::size_t kRangesMax = 64;           // of a launch, on the stack; more go through the heap
constexpr std::int64_t kIdleBytes = 256 << 10;   // of small allocations, with which a process has yet asked for nothing

CheckedFlash::Proof proof_of(const Options& options) {
  return options.verify == "content" ? CheckedFlash::Proof::kContent : CheckedFlash::Proof::kDigest;
}

}  // namespace

ManagedRuntime::ManagedRuntime(const Options& options, Parts parts)
    : options_(options),
      memory_(std::move(parts.memory)),
      files_(std::move(parts.files)),
      flash_(std::move(parts.flash), *memory_, parts.config.block_bytes, files_.get(), proof_of(options)),
      flash_description_(std::move(parts.flash_description)),
      flash_directory_(std::move(parts.flash_directory)),
      base_(memory_->base()),
      space_bytes_(memory_->bytes()),
      recorder_(parts.recorder),
      core_(parts.config, *memory_, std::move(parts.policy)),
      cache_(space_bytes_),
      small_step_(std::min(kSmallStepMax, static_cast<std::int64_t>(parts.config.budget_bytes / kSmallSteps))),
      moving_toll_(usable_processors(), {.now = monotonic_ns(), .all_threads = processor_ns()}),
      starvation_(static_cast<std::uint64_t>(parts.starved_max.count())),
      passes_(options.passes),
      job_(std::move(parts.job)) {
  if (options.memory < options.memory_max) core_.budget().set_bytes(options.memory);
  if (job_ != nullptr) core_.budget().set_flash_bytes(0);
  stats_file_.open(options.stats_path, policy(), description());
  ledger_.open(stats_file_.waits());
  timeline_.open(stats_file_.timeline(), monotonic_ns());
  register_for_fork();
  if (start_internal_thread(
          "ebb-mover", [this] { move_loop(); }, mover_) == Status::kOk &&
      start_internal_thread(
          "ebb-faults", [this] { fault_loop(); }, fault_thread_) == Status::kOk) {
    if (job_ != nullptr) job_->start(*this);
    if (options.map_files) files_->serve(this);
    return;
  }
  unregister_for_fork();
  stop_threads();
  throw Error(Status::kUnsupported,
              "memory cannot be managed without two threads, which the system refuses: lift "
              "ulimit -u, or the limit on tasks of the container");
}

ManagedRuntime::~ManagedRuntime() {
  if (job_ != nullptr) job_->stop();
  if (!child_) files_->serve(nullptr);
  if (!child_) finish_forks();
  if (!child_) release_all();
  unregister_for_fork();
  stop_threads();
  if (!child_) tell_core();
  if (recorder_ != nullptr && !recorder_->is_over() && !child_) write_recording();
  for (const Snapshot& snapshot : snapshots_) ::close(snapshot.pipe);
  if (child_) flash_.abandon();
}

void ManagedRuntime::stop_threads() {
  stopping_ = true;
  flash_.wake();
  memory_->interrupt();
  if (mover_.joinable()) mover_.join();
  if (fault_thread_.joinable()) fault_thread_.join();
}

bool ManagedRuntime::manages(const void* data) const noexcept {
  return in_space(data) || (adopted_count_.load(std::memory_order_relaxed) > 0 && is_adopted(data));
}

std::uint64_t ManagedRuntime::offset_of(const void* data) const {
  return reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base_);
}

bool ManagedRuntime::range_of(const Access& access, Core::Range& range) const {
  const std::uint64_t offset = offset_of(access.data);
  if (access.bytes == 0) return false;
  if (offset >= space_bytes_) {
    return adopted_count_.load(std::memory_order_relaxed) > 0 && adopted_range(access, range);
  }
  if (access.bytes > space_bytes_ - offset) return false;
  range.offset = offset;
  range.bytes = access.bytes;
  range.group = access.group;
  range.written = access.written;
  range.overwritten = access.overwritten;
  range.in_allocation = access.allocation != nullptr && in_space(access.allocation);
  range.allocation = range.in_allocation ? offset_of(access.allocation) : 0;
  return true;
}

void* ManagedRuntime::allocate(std::size_t bytes) {
  if (bytes < options_.managed_bytes_min || child_) return allocate_small(bytes);
  std::uint64_t offset = 0;
  if (cache_.take(Heap::round_up(bytes), offset)) return base_ + offset;
  enter_job();
  Lock lock(mutex_);
  ask_for_flash(lock, bytes);
  if (!allocate_in_core(bytes, offset) || (!find_places(lock, offset) && !allocate_in_core(bytes, offset))) {
    lock.unlock();
    out_of_memory(bytes);
  }
  pump();
  peak_resident_bytes_ = std::max(peak_resident_bytes_, core_.budget().resident_bytes());
  after_change();
  const Core::Range range{offset, bytes, 0, false};
  if (core_.launches().pending({&range, 1})) wait_for_frames(lock, range);
  return base_ + offset;
}

bool ManagedRuntime::allocate_in_core(std::size_t bytes, std::uint64_t& offset) {
  tell_core();
  consider_cache();
  if (cache_.take(Heap::round_up(bytes), offset)) return true;  // its log was full
  ++cache_misses_;
  if (core_.allocations().allocate(bytes, offset) != Status::kOk) {
    // What is kept for reuse may be what stands in the way.
    claim_cache();
    tell_core();
    if (core_.allocations().allocate(bytes, offset) != Status::kOk) return false;
  }
  cache_.know(offset, core_.allocations().bytes_of(offset));
  return true;
}

// A file system may have less left than it says, as where a quota ends: what has a place only on flash that does not
// exist yet waits until it does, and is given back where it cannot. A touch could not be refused any more.
bool ManagedRuntime::find_places(Lock& lock, std::uint64_t offset) {
  if (!core_.budget().owes_extents()) return true;
  flash_.wake();
  changed_.wait_for(lock, kMakeRoomMax, [&] { return stopping_ || !core_.budget().owes_extents(); });
  if (core_.budget().has_places(0, 0)) return true;
  cache_.forget(offset);
  core_.allocations().deallocate(offset);
  return false;
}

void ManagedRuntime::deallocate(void* data) noexcept {
  if (data == nullptr) return;
  if (!in_space(data)) {
    if (!child_) count_small(-static_cast<std::int64_t>(::malloc_usable_size(data)));
    std::free(data);
    return;
  }
  if (child_) return;  // the space is the parent's: nothing to give back
  if (cache_.put(offset_of(data))) return;
  Lock lock(mutex_);
  tell_core();
  consider_cache();
  if (cache_.put(offset_of(data))) return;  // its log was full, or the thread has a cache only now
  cache_.forget(offset_of(data));
  core_.allocations().deallocate(offset_of(data));
  // What was freed may be what somebody waits for.
  if (core_.engine().idle()) return;
  pump();
  after_change();
}

void* ManagedRuntime::allocate_small(std::size_t bytes) {
  void* data = nullptr;
  if (!child_) {
    if (small_bytes_.load(std::memory_order_relaxed) > kIdleBytes) enter_job();
    count_small(static_cast<std::int64_t>(bytes));
  }
  if (::posix_memalign(&data, kAlignment, std::max<std::size_t>(bytes, 1)) != 0) out_of_memory(bytes);
  if (!child_) count_small(static_cast<std::int64_t>(::malloc_usable_size(data)) - static_cast<std::int64_t>(bytes));
  return data;
}

void ManagedRuntime::count_small(std::int64_t bytes) {
  const std::int64_t now = small_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const std::int64_t kept = small_kept_.load(std::memory_order_relaxed);
  if (now <= kept && now > kept - 4 * small_step_) return;
  Lock lock(mutex_);
  const std::int64_t keep = (std::max<std::int64_t>(now, 0) / small_step_ + 2) * small_step_;
  small_kept_.store(keep, std::memory_order_relaxed);
  core_.budget().set_small_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0)),
                                 static_cast<std::uint64_t>(keep));
  if (!core_.budget().over()) return;
  // Frames leave before the memory is taken.
  pump();
  after_change();
  changed_.wait_for(lock, kMakeRoomMax, [&] { return !core_.budget().over(); });
}

// Calls `use` with those of the accesses that lie in the space; not at all if none does.
template <typename F>
void ManagedRuntime::with_ranges(std::span<const Access> accesses, F&& use) const {
  std::array<Core::Range, kRangesMax> few;
  std::vector<Core::Range> many;
  if (accesses.size() > few.size()) many.resize(accesses.size());
  const std::span<Core::Range> all = many.empty() ? std::span<Core::Range>(few) : std::span<Core::Range>(many);
  std::size_t count = 0;
  for (const Access& access : accesses) count += range_of(access, all[count]) ? 1 : 0;
  if (count > 0) use(std::span<const Core::Range>(all.first(count)));
}

std::uint64_t ManagedRuntime::announce(std::uint64_t op, std::span<const Access> accesses) noexcept {
  memory_->prepare_thread();
  if (child_) return 0;
  std::uint64_t ticket = 0;
  with_ranges(accesses, [&](std::span<const Core::Range> ranges) { ticket = announce(op, ranges); });
  return ticket;
}

std::uint64_t ManagedRuntime::announce(std::uint64_t op, std::span<const Core::Range> ranges) {
  const std::uint64_t now_ns = monotonic_ns();
  Lock lock(mutex_);
  tell_core();
  tell_time(now_ns);
  const std::uint64_t iterations = core_.launches().iterations();
  const std::uint64_t ticket = core_.launches().announce(op, ranges);
  if (core_.launches().iterations() != iterations) {  // nobody has told of it
    end_iteration();
    if (recorder_ != nullptr && recorder_->due()) write_recording();
  }
  pump();
  after_change();
  const Launches::Needs needs = core_.launches().take_needs();
  const bool waits = core_.launches().waits(ticket, ranges);
  if (waits || needs.any()) wait_for_launch(lock, op, ticket, ranges, needs);
  // Time that was waited is none that the launch runs. Where nothing was to be done the clock need not be asked again.
  const std::uint64_t ready_ns = waits || !core_.engine().idle() ? monotonic_ns() : now_ns;
  launch_clock_.begin(ready_ns, stalls_.total_ns(ready_ns));
  return ticket;
}

// How long the launch announced last has run. Lock held.
void ManagedRuntime::tell_time(std::uint64_t now_ns) {
  if (const std::uint64_t ns = launch_clock_.end(now_ns, stalls_.total_ns(now_ns))) core_.launches().ran(ns);
}

void ManagedRuntime::retire(std::uint64_t ticket) noexcept {
  if (ticket == 0 || child_) return;
  const Lock lock(mutex_);
  core_.launches().retire(ticket);
}

bool ManagedRuntime::hold(std::span<const Access> accesses) noexcept {
  if (child_) return false;
  bool held = true;
  with_ranges(accesses, [&](std::span<const Core::Range> ranges) { held = hold(ranges); });
  return held;
}

bool ManagedRuntime::hold(std::span<const Core::Range> ranges) {
  const Lock lock(mutex_);
  std::uint64_t count = 0;
  for (const Core::Range& range : ranges) {
    const BlockRange blocks = core_.blocks_of(range.offset, range.bytes);
    count += blocks.count;
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (core_.table()[i].state != BlockState::kResident) return false;
    }
  }
  if ((held_blocks_ + count) * options_.block_bytes > read_stats().budget_bytes / 2) return false;
  held_blocks_ += count;
  for (const Core::Range& range : ranges) {
    const BlockRange blocks = core_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) core_.engine().pin(i);
  }
  return true;
}

void ManagedRuntime::let_go(std::span<const Access> accesses) noexcept {
  if (child_) return;
  with_ranges(accesses, [&](std::span<const Core::Range> ranges) {
    const Lock lock(mutex_);
    for (const Core::Range& range : ranges) {
      const BlockRange blocks = core_.blocks_of(range.offset, range.bytes);
      held_blocks_ -= blocks.count;
      for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) core_.engine().unpin(i);
    }
    pump();  // somebody may wait for one to leave
    after_change();
  });
}

std::uint64_t ManagedRuntime::expect(std::span<const Access> accesses) noexcept {
  if (child_) return 0;
  std::uint64_t expected = 0;
  with_ranges(accesses, [&](std::span<const Core::Range> ranges) {
    const Lock lock(mutex_);
    expected = core_.launches().expect(ranges);
    if (expected == 0) return;
    pump();
    after_change();
  });
  return expected;
}

void ManagedRuntime::begin(std::uint64_t expected) noexcept {
  if (expected == 0 || child_) return;
  const Lock lock(mutex_);
  core_.launches().begin(expected);
}

void ManagedRuntime::forget(std::uint64_t expected) noexcept {
  if (expected == 0 || child_) return;
  const Lock lock(mutex_);
  core_.launches().forget(expected);
  pump();
  after_change();
}

bool ManagedRuntime::lost(std::span<const Access> accesses) const noexcept {
  bool lost = false;
  with_ranges(accesses, [&](std::span<const Core::Range> ranges) {
    const Lock lock(mutex_);
    lost = core_.launches().lost(ranges);
  });
  return lost;
}

// After anything that may have left work for the mover, or given another thread what it waits for. Lock held.
void ManagedRuntime::after_change() {
  if (core_.has_work() || core_.budget().wants_frame_ahead()) flash_.wake();
  changed_.notify_all();  // where nobody waits, one look at a counter
}

void ManagedRuntime::step() noexcept {
  if (child_) return;
  const Lock lock(mutex_);
  if (steps_++ == 0) stats_file_.forget_steps();  // what was found until now may have been parts of one
  tell_core();
  tell_time(monotonic_ns());  // the next launch, which would tell, belongs to another iteration
  end_iteration();
  if (recorder_ != nullptr) recorder_->steps_are_told();
  core_.launches().step();
  if (recorder_ != nullptr && recorder_->due()) write_recording();
}

// The plan for the next one is by the pace of now.
void ManagedRuntime::end_iteration() {
  stats_file_.end_step(read_stats().fetched_bytes);
  const std::uint64_t now = monotonic_ns();
  const Engine::Counters& counters = core_.engine().counters();
  moving_toll_.observe({now, stalls_.total_ns(now), processor_ns(), processor_ns_of(mover_.native_handle()),
                        counters.fetched + counters.evicted});
  core_.set_flash_pace(flash_pace_.in_ns(), flash_pace_.out_ns(), flash_pace_.both_ns(), moving_toll_.each_ns());
}

Stats ManagedRuntime::read_stats() const {
  Stats stats;
  core_.fill(stats);
  add_cache(stats);
  stats.small_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(small_bytes_.load(), 0));
  const SourceFiles::SharedMemory shared = files_ != nullptr ? files_->shared_memory() : SourceFiles::SharedMemory{};
  stats.shared_bytes = shared.bytes;
  stats.peak_shared_bytes = shared.most_bytes;
  stats.peak_resident_bytes = std::max(peak_resident_bytes_, stats.resident_bytes);
  stats.faults = faults_;
  stats.scattered = core_.engine().scattered();
  stats.stall_ns = stalls_.total_ns(monotonic_ns());
  stats.steps = steps_;
  return stats;
}

Stats ManagedRuntime::stats() const {
  const Lock lock(mutex_);
  return read_stats();
}

std::vector<double> ManagedRuntime::step_seconds() const { return stats_file_.step_seconds(); }

std::string ManagedRuntime::policy() const { return std::string(core_.policy().name()); }

std::string ManagedRuntime::description() const { return memory_->description() + "; " + flash_description_; }

}  // namespace ebb
