// ManagedRuntime: its two threads. Neither touches the space; the fault thread never allocates.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "runtime/managed_runtime.h"
#include "runtime/tell.h"

namespace ebb {
namespace {

// Small batches: hashing a batch of writes must not keep arrived reads waiting.
constexpr std::size_t kSubmitBatch = 2;
constexpr std::size_t kPollBatch = 2;
constexpr std::chrono::milliseconds kIdleWait{200};
constexpr int kLockTryUs = 5;
constexpr std::uint64_t kPublishEveryNs = 100'000'000;

}  // namespace

void ManagedRuntime::move_loop() {
  std::array<FlashRequest, kSubmitBatch> requests;
  std::array<FlashCompletion, kPollBatch> completions;
  std::uint64_t published_ns = 0;
  Lock lock(mutex_);
  while (!stopping_) {
    if (adoption_ != nullptr) settle_adopted();
    if (core_.budget().extents_wanted() > 0) grow_flash(lock);
    const std::size_t taken = core_.take_requests(requests);
    // Slow, so only while nothing moves.
    const bool idle = taken == 0 && core_.engine().in_flight() == 0;
    const bool given = job_ == nullptr || !job_->idle();
    const FrameIndex ahead = idle && given ? core_.budget().begin_frame_ahead() : FrameIndex::none();
    lock.unlock();
    flash_.submit(std::span(requests).first(taken));
    std::size_t arrived = flash_.poll(completions);
    Status made = Status::kOk;
    if (ahead.valid()) {
      made = memory_->create(ahead);
    } else if (arrived == 0 && taken == 0) {
      flash_.wait(kIdleWait);
      arrived = flash_.poll(completions);
    }
    lock.lock();
    if (ahead.valid()) core_.budget().end_frame_ahead(ahead, made);
    for (const FlashCompletion& completion : std::span(completions).first(arrived)) core_.complete(completion);
    settle_written();
    close_files();
    const bool starved = core_.engine().starved().valid();
    if (arrived > 0 || starved || ahead.valid()) {
      pump();
      settle_faults();
      changed_.notify_all();
    }
    const std::uint64_t now = monotonic_ns();
    const Engine& engine = core_.engine();
    flash_pace_.observe(now,
                        {engine.fetching(), engine.writing(), engine.counters().fetched, engine.counters().evicted});
    if (now - published_ns > kPublishEveryNs) {
      published_ns = now;
      renew_changed_files();
      publish();
      remember(lock);
    }
    if (!snapshots_.empty() && (core_.engine().owed() > 0 || published_ns == now)) release_ended_snapshots();
  }
  // What was submitted still belongs to the queue, whose destructor waits for it.
  publish();
}

// Who maps a file shared sees what others write to it: a little later than with the kernel's mappings.
void ManagedRuntime::renew_changed_files() {
  if (files_ == nullptr) return;
  for (std::int32_t file = files_->take_changed(); file != FilePlace::kNoFile; file = files_->take_changed()) {
    core_.files().note_changed(file);
  }
  if (!core_.files().renew_stale()) return;
  pump();  // there are frames for who waits
  settle_faults();
  after_change();
}

void ManagedRuntime::publish() {
  peak_resident_bytes_ = std::max(peak_resident_bytes_, core_.budget().resident_bytes());
  const Stats stats = read_stats();
  stats_file_.update(stats);
  const std::uint64_t now = monotonic_ns();
  if (timeline_.due(now)) timeline_.take(now, stats, core_, notes_);
}

void ManagedRuntime::grow_flash(Lock& lock) {
  const std::uint32_t now = core_.extents().capacity();
  const std::uint32_t wanted = core_.budget().extents_wanted();
  lock.unlock();
  const std::uint32_t grown =
      Budget::grown(now, wanted, [&](std::uint32_t count) { return flash_.reserve(count) == Status::kOk; });
  lock.lock();
  core_.budget().set_extents(grown, grown > now);
  pump();
  after_change();  // where more is wanted, the next step comes without a wait
}

void ManagedRuntime::fault_loop() {
  std::array<BlockIndex, 32> blocks;
  while (!stopping_) {
    const std::size_t count = memory_->next(blocks);
    if (count > 0) serve_faults(std::span(blocks).first(count));
  }
}

void ManagedRuntime::serve_faults(std::span<const BlockIndex> blocks) {
  const Lock lock = lock_for_faults();
  for (const BlockIndex block : blocks) {
    ++faults_;
    const BlockState before = core_.table()[block].state;
    core_.fault(block);
    if (before == BlockState::kOnFlash) note_order();
    begin_fault(block, before);
  }
  pump();
  for (Fault& fault : std::span(faulting_).first(faulting_count_)) {
    fault.subject.cause = cause_of(fault.block, fault.subject.cause);
  }
  settle_faults();
  after_change();
}

// Lock held.
void ManagedRuntime::note_order() {
  const std::uint64_t now = monotonic_ns();
  const bool wasteful = fault_order_.note(faults_, core_.engine().scattered(), now, stalls_.total_ns(now));
  if (!wasteful || told_scattered_ || core_.block_bytes() <= Options::kSmallBlockBytes) return;
  told_scattered_ = true;
  tell(
      "ebb: memory is touched in no order (a sort, a shuffle?), and each touch waits for a block of %u KiB: smaller "
      "blocks may be many times faster (ebb run --block 256KiB, or EBB_BLOCK).\n",
      static_cast<unsigned>(core_.block_bytes() >> 10));
}

// Who has the lock may be in a call of malloc's that gives back adopted memory, which waits until it has been noticed.
ManagedRuntime::Lock ManagedRuntime::lock_for_faults() {
  if (adopted_count_.load() == 0) return Lock(mutex_);
  Lock lock(mutex_, std::try_to_lock);
  while (!lock.owns_lock()) {
    adoption_->apply_changes();
    ::usleep(kLockTryUs);
    static_cast<void>(lock.try_lock());
  }
  return lock;
}

// Ends the stall of faults that have been served, and gives up on one that never can be. Lock held.
void ManagedRuntime::settle_faults() {
  const std::uint64_t now = monotonic_ns();
  const BlockIndex starved = core_.engine().starved();
  const bool help_comes = core_.budget().extents_wanted() > 0 || core_.budget().making_frame_ahead();
  if (starvation_.over(now, starved, help_comes)) {
    tell(
        "ebb: out of memory: block %u is needed, and no other can leave: flash is %s. The access "
        "fails with SIGBUS. Give it more memory (--memory) or other flash (--flash).\n",
        starved.value(), core_.engine().flash_failing() ? "failing" : "full");
    core_.engine().fail_starved();
    pump();
  }
  report_lost();
  for (std::size_t i = 0; i < faulting_count_;) {
    const Block& block = core_.table()[faulting_[i].block];
    const bool waits = block.queue != 0 || block.state == BlockState::kFetching || block.state == BlockState::kEvicting;
    if (waits) {
      ++i;
      continue;
    }
    ledger_.charge(faulting_[i].subject, stalls_.end(now));
    ledger_.ended(faulting_[i].subject, faulting_[i].begun_ns, now);
    faulting_[i] = faulting_[--faulting_count_];
  }
}

void ManagedRuntime::report_lost() {
  const Engine::Counters& counters = core_.engine().counters();
  if (counters.lost == lost_reported_) return;
  lost_reported_ = counters.lost;
  if (const FilePlace place = core_.engine().lost_place(); place.valid()) {
    tell(
        "ebb: '%.300s' %s. A program that touches that part of it fails with SIGBUS rather than compute "
        "with other data. Check its disk, or map it again.\n",
        files_->name(place.file),
        counters.corrupt > 0 ? "has other bytes than before, and nobody has changed it"
                             : "cannot be read any more, or has shrunk");
    return;
  }
  tell(
      "ebb: block %u cannot be read back from flash: %s. Its data is lost; a program that touches "
      "it fails with SIGBUS rather than compute with wrong data. Check the disk under %s.\n",
      core_.engine().lost_block().value(),
      counters.corrupt > 0 ? "its checksum does not match" : "the device reports an error", flash_directory_.c_str());
}

void ManagedRuntime::dump_state(const char* why) const {
  const PageTable& table = core_.table();
  tell(
      "ebb: %s: %u blocks resident, %u evicting, %u fetching, %u on flash; %u transfers in flight, "
      "flash %s\n",
      why, table.count(BlockState::kResident), table.count(BlockState::kEvicting), table.count(BlockState::kFetching),
      table.count(BlockState::kOnFlash), core_.engine().in_flight(), core_.engine().flash_full() ? "full" : "not full");
}

}  // namespace ebb
