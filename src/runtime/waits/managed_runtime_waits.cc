// ManagedRuntime: waiting, and who is charged for it.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

constexpr std::chrono::seconds kWaitReport{30};
constexpr int kWaitReportsMax = 4;  // then the launch goes on, and faults for what it lacks

bool contains(BlockRange blocks, BlockIndex block) { return block >= blocks.first && block < blocks.end(); }

}  // namespace

// Until what a launch needs to start is there. A launch that finds all it needs, and nothing that was fetched for it,
// does not come here.
void ManagedRuntime::wait_for_launch(Lock& lock, std::uint64_t op, std::uint64_t ticket,
                                     std::span<const Core::Range> ranges, Launches::Needs needs) {
  const bool waits = core_.launches().waits(ticket, ranges);
  Waiter waiter;
  waiter.ticket = ticket;
  waiter.ranges = ranges;
  waiter.unless_short = needs.absent > 0 ? WaitCause::kUnplanned : WaitCause::kLate;
  waiter.subject.op = ledger_.op(op);
  if (waits) stalls_.begin(monotonic_ns());
  if (waits || core_.launches().is_long(ticket)) {
    ask_who(lock, op, waiter);
    waited_ticket_ = ticket;
    waited_ = waiter.subject;
  }
  charge_needs(waiter.subject, needs);
  if (waits) wait_for(lock, waiter);
}

void ManagedRuntime::wait_for_frames(Lock& lock, const Core::Range& range) {
  Waiter waiter;
  waiter.ranges = {&range, 1};
  waiter.unless_short = WaitCause::kNoFrame;
  const std::uint64_t op = core_.launches().running_op();
  waiter.subject.op = ledger_.op(op);
  stalls_.begin(monotonic_ns());
  ask_who(lock, op, waiter);
  wait_for(lock, waiter);
}

// What is awaited is asked for anew whenever something has arrived: each stretch is charged to the block that was
// waited for. The clock of stalls has begun.
void ManagedRuntime::wait_for(Lock& lock, Waiter& waiter) {
  ledger_.waits(waiter.subject);
  WaitSubject& subject = waiter.subject;
  const std::uint64_t begun_ns = monotonic_ns();
  BlockIndex block = awaited(waiter);
  for (int report = 0; block.valid() && report < kWaitReportsMax; ++report) {
    const auto until = std::chrono::steady_clock::now() + kWaitReport;
    bool over = false;
    while (block.valid() && !over) {
      subject.cause = cause_of(block, waiter.unless_short);
      subject.kind = kind_of(block, waiter.ranges, waiter.unless_noted);
      over = changed_.wait_until(lock, until) == std::cv_status::timeout;
      ledger_.charge(subject, stalls_.take(monotonic_ns()));
      block = awaited(waiter);
    }
    if (block.valid()) dump_state("a launch has waited 30 s for its blocks");
  }
  const std::uint64_t now_ns = monotonic_ns();
  ledger_.charge(subject, stalls_.end(now_ns));
  ledger_.ended(subject, begun_ns, now_ns);
}

BlockIndex ManagedRuntime::awaited(const Waiter& waiter) const {
  const Launches& launches = core_.launches();
  return waiter.ticket != 0 ? launches.awaited(waiter.ticket, waiter.ranges) : launches.first_pending(waiter.ranges);
}

// The program's front end, which may take locks of its own.
void ManagedRuntime::ask_who(Lock& lock, std::uint64_t op, Waiter& waiter) {
  if (observer_ == nullptr) return;
  const WaitObserver observer = observer_;
  WaitContext context;
  lock.unlock();
  observer(op, context);
  lock.lock();
  waiter.subject.module = ledger_.module(context.module);
  waiter.unless_noted = context.otherwise;
}

WaitCause ManagedRuntime::cause_of(BlockIndex block, WaitCause unless_short) const {
  if (has_frame(core_.table()[block].state) || !core_.engine().out_of_frames()) return unless_short;
  const bool full = core_.engine().flash_full() && core_.budget().extents_wanted() == 0;
  return full ? WaitCause::kFlashFull : WaitCause::kNoFrame;
}

TensorKind ManagedRuntime::kind_of(BlockIndex block, std::span<const Core::Range> ranges,
                                   TensorKind unless_noted) const {
  // Neighbours share blocks: what is used is known better than what lies there.
  std::uint64_t begin = block.value() * core_.block_bytes();
  std::uint64_t end = begin + core_.block_bytes();
  for (const Core::Range& range : ranges) {
    if (!range.in_allocation || !contains(core_.blocks_of(range.offset, range.bytes), block)) continue;
    begin = range.allocation;
    end = begin + 1;
    break;
  }
  if (core_.files().find(begin).count > 0) return TensorKind::kFile;
  const MemoryNotes::Note* const note = notes_.find(begin, end);
  const bool known = note != nullptr && core_.allocations().serial_of(note->offset) == note->serial;
  return known ? note->kind : unless_noted;
}

// Somebody touched a block that was in this state. The fault thread does not know for whom it was: the launch announced
// last that still runs is charged.
void ManagedRuntime::begin_fault(BlockIndex block, BlockState before) {
  const Launches::Needs needs = core_.launches().take_needs();
  WaitSubject subject;
  subject.op = ledger_.op(core_.launches().running_op());
  const bool asked = waited_ticket_ != 0 && core_.launches().running() == waited_ticket_;
  if (asked) subject.module = waited_.module;
  charge_needs(subject, needs);
  const auto known = std::span(faulting_).first(faulting_count_);
  const auto same = [block](const Fault& fault) { return fault.block == block; };
  if (faulting_count_ == kFaultsMax || std::any_of(known.begin(), known.end(), same)) return;
  subject.kind = kind_of(block, {}, TensorKind::kOther);
  subject.cause =
      before == BlockState::kOnFlash || before == BlockState::kUntouched ? WaitCause::kFault : WaitCause::kLate;
  const bool comes = before == BlockState::kOnFlash || before == BlockState::kFetching;
  if (comes && needs.absent + needs.arriving == 0) ledger_.fetched(subject, core_.block_bytes(), 0);
  ledger_.waits(subject);
  const std::uint64_t now_ns = monotonic_ns();
  faulting_[faulting_count_++] = {block, subject, now_ns};
  stalls_.begin(now_ns);
}

void ManagedRuntime::charge_needs(const WaitSubject& subject, Launches::Needs needs) {
  if (!needs.any()) return;
  const std::uint64_t all = needs.absent + needs.arriving + needs.ahead;
  ledger_.fetched(subject, all * core_.block_bytes(), needs.ahead * core_.block_bytes());
}

WaitReport ManagedRuntime::waits() const {
  const Lock lock(mutex_);
  return ledger_.report();
}

void ManagedRuntime::observe_waits(WaitObserver observer) {
  const Lock lock(mutex_);
  observer_ = observer;
}

void ManagedRuntime::describe(std::span<const MemoryNote> notes) {
  if (child_) return;
  std::vector<MemoryNotes::Note> known;
  known.reserve(notes.size());
  for (const MemoryNote& note : notes) {
    if (in_space(note.data))
      known.push_back({offset_of(note.data), 0, 0, note.kind, note.name, MemoryNotes::Note::kNoRow});
  }
  Lock lock(mutex_);
  tell_core();
  for (MemoryNotes::Note& note : known) {
    note.bytes = core_.allocations().bytes_of(note.offset);
    note.serial = core_.allocations().serial_of(note.offset);
  }
  std::erase_if(known, [](const MemoryNotes::Note& note) { return note.serial == 0; });
  known = notes_.replace(std::move(known));
  timeline_.follow(notes_);
  lock.unlock();  // what was known is freed without it
}

}  // namespace ebb
