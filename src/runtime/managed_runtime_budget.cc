// ManagedRuntime: a budget that changes while the program runs, and one that is used up. Whoever asks for another
// waits, step by step; the mover evicts, and faults are served in between.
#include <algorithm>

#include "base/clock.h"
#include "runtime/managed_runtime.h"
#include "runtime/tell.h"

namespace ebb {
namespace {

// So much leaves at once: a touch of absent memory waits for no more than that.
constexpr std::uint64_t kStepBytesMax = 32 * kMiB;
constexpr std::uint64_t kStepShare = 16;
// Of flash more at once: a part of all that there is.
constexpr std::uint64_t kFlashStepBytes = kGiB;
constexpr std::uint64_t kFlashSteps = 8;
constexpr std::chrono::milliseconds kTurn{10};
// In which nothing left.
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::seconds kJobPatience{2};

}  // namespace

// One step down to these bytes. False: too much is in use, and the budget is as before. Lock held.
bool ManagedRuntime::lower_budget(Lock& lock, std::uint64_t bytes, std::chrono::milliseconds patience) {
  Budget& budget = core_.budget();
  const std::uint64_t before = budget.bytes();
  const std::uint64_t step = std::min(kStepBytesMax, std::max(core_.block_bytes(), before / kStepShare));
  budget.set_bytes(std::max(bytes, before - std::min(before, step)));
  std::uint64_t resident = budget.resident_bytes();
  for (auto idle = kTurn * 0; budget.over() && idle < patience && !stopping_;) {
    pump();
    after_change();
    changed_.wait_for(lock, kTurn, [&] { return !budget.over(); });
    const std::uint64_t now = budget.resident_bytes();
    idle = now < resident ? kTurn * 0 : idle + kTurn;
    resident = std::min(resident, now);
  }
  if (!budget.over()) return true;
  budget.set_bytes(before);
  return false;
}

// Lock held.
void ManagedRuntime::budget_changed() {
  setting_budget_ = false;
  publish();
  pump();
  after_change();
  changed_.notify_all();
}

void ManagedRuntime::out_of_memory(std::size_t bytes) {
  const Stats now = stats();
  throw Error(Status::kNoMemory,
              "out of memory: " + format_size(bytes) + " asked for, with " + format_size(now.live_bytes) +
                  " of tensors alive, a memory budget of " + format_size(now.budget_bytes) + " and room for " +
                  format_size(now.flash_limit_bytes) + " on flash in '" + flash_directory_ + "'" +
                  file_limit_in_words() +
                  ". Give it more memory (--memory, EBB_MEMORY) or more flash (--flash DIR:SIZE, EBB_FLASH).");
}

void ManagedRuntime::set_budget(std::uint64_t bytes) {
  if (child_) throw Error(Status::kUnsupported, "a forked child has no budget of its own");
  enter_job();
  Lock lock(mutex_);
  Budget& budget = core_.budget();
  if (bytes > budget.most_bytes()) {
    throw Error(Status::kInvalid, "a budget of " + format_size(bytes) + " is more than the " +
                                      format_size(budget.most_bytes()) +
                                      " that memory was set up for: open it with more (memory_max, EBB_MEMORY_MAX)");
  }
  changed_.wait(lock, [&] { return !setting_budget_; });
  setting_budget_ = true;
  std::string problem;
  while (budget.bytes() > bytes && problem.empty()) {
    const std::uint64_t least = budget.least_bytes();
    if (bytes < least) {
      problem = "at least " + format_size(least) +
                " are needed now, for the fewest blocks that the program runs with, small allocations and what flash "
                "has no place for (--flash DIR:SIZE)";
    } else if (!lower_budget(lock, bytes, kPatience)) {
      problem = "what remains is in use, and has not left within 10 s: try again between operators";
    }
  }
  if (problem.empty()) {
    wished_bytes_ = bytes;
    budget.set_bytes(std::min(bytes, job_ == nullptr ? bytes : granted_bytes_));
  }
  const std::uint64_t reached = budget.bytes();
  budget_changed();
  lock.unlock();
  if (!problem.empty()) {
    throw Error(Status::kBusy,
                "the budget cannot be " + format_size(bytes) + ", and is " + format_size(reached) + ": " + problem);
  }
}

// What the job gives is an upper bound: the program may have wished for less.
std::uint64_t ManagedRuntime::change_budget(std::uint64_t bytes) noexcept {
  Lock lock(mutex_);
  Budget& budget = core_.budget();
  if (setting_budget_) {  // the program changes it itself
    granted_bytes_ = std::max(granted_bytes_, bytes);
    return granted_bytes_;
  }
  setting_budget_ = true;
  const std::uint64_t meant = std::min({bytes, wished_bytes_, budget.most_bytes()});
  if (meant >= budget.bytes()) {
    budget.set_bytes(meant);
  } else if (meant >= budget.least_bytes()) {
    static_cast<void>(lower_budget(lock, meant, kJobPatience));
  }
  granted_bytes_ = std::max(budget.bytes(), bytes);
  budget_changed();
  return granted_bytes_;
}

// Before something so large becomes alive: enough of the job's flash for it. Who has been told that there is no more
// asks again when it would have to fail. Lock held, and given up while it asks.
void ManagedRuntime::ask_for_flash(Lock& lock, std::uint64_t bytes) {
  const std::uint64_t blocks = bytes / core_.block_bytes() + 2;
  if (job_ == nullptr || !core_.budget().wants_flash(blocks)) return;
  if (flash_denied_ && core_.budget().has_places(blocks, blocks)) return;
  const std::uint64_t step = std::min(kFlashStepBytes, core_.budget().flash_most_bytes() / kFlashSteps);
  lock.unlock();
  job_->more_flash(std::max(step, 2 * blocks * core_.block_bytes()));
  lock.lock();
}

void ManagedRuntime::flash_changed(std::uint64_t bytes) noexcept {
  const Lock lock(mutex_);
  const std::uint64_t before = core_.budget().flash_limit_bytes();
  core_.budget().set_flash_bytes(bytes);
  flash_denied_ = core_.budget().flash_limit_bytes() <= before;
  pump();
  after_change();
}

std::uint64_t ManagedRuntime::flash_wanted() noexcept {
  const Lock lock(mutex_);
  if (flash_denied_ || !core_.budget().wants_flash(0)) return 0;
  return std::min(kFlashStepBytes, core_.budget().flash_most_bytes() / kFlashSteps);
}

void ManagedRuntime::report(JobMessage& message) noexcept {
  const Lock lock(mutex_);
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t stall_ns = stalls_.total_ns(now_ns);
  const std::uint64_t past_ns = std::max<std::uint64_t>(now_ns - reported_ns_, 1);
  message.stall_permille = static_cast<std::uint32_t>((stall_ns - reported_stall_ns_) * 1000 / past_ns);
  message.resident_bytes = core_.budget().resident_bytes();
  message.least_bytes = core_.budget().least_bytes();
  reported_ns_ = now_ns;
  reported_stall_ns_ = stall_ns;
}

}  // namespace ebb
