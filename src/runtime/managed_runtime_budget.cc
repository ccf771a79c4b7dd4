// ManagedRuntime: a budget that changes while the program runs. Whoever asks for it waits, step by step; the mover
// evicts, and faults are served in between.
#include <algorithm>

#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

// So much leaves at once: a touch of absent memory waits for no more than that.
constexpr std::uint64_t kStepBytesMax = 32 * kMiB;
constexpr std::uint64_t kStepShare = 16;
constexpr std::chrono::milliseconds kTurn{10};
constexpr int kIdleTurnsMax = 1000;  // in which nothing left

}  // namespace

// One step down to these bytes. False: too much is in use, and the budget is as before. Lock held.
bool ManagedRuntime::lower_budget(Lock& lock, std::uint64_t bytes) {
  Budget& budget = core_.budget();
  const std::uint64_t before = budget.bytes();
  budget.set_bytes(bytes);
  std::uint64_t resident = budget.resident_bytes();
  for (int idle = 0; budget.over() && idle < kIdleTurnsMax && !stopping_;) {
    pump();
    after_change();
    changed_.wait_for(lock, kTurn, [&] { return !budget.over(); });
    const std::uint64_t now = budget.resident_bytes();
    idle = now < resident ? 0 : idle + 1;
    resident = std::min(resident, now);
  }
  if (!budget.over()) return true;
  budget.set_bytes(before);
  return false;
}

void ManagedRuntime::set_budget(std::uint64_t bytes) {
  if (child_) throw Error(Status::kUnsupported, "a forked child has no budget of its own");
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
    const std::uint64_t step = std::min(kStepBytesMax, std::max(core_.block_bytes(), budget.bytes() / kStepShare));
    if (bytes < least) {
      problem = "at least " + format_size(least) +
                " are needed now, for the fewest blocks that the program runs with, small allocations and what flash "
                "has no place for (--flash DIR:SIZE)";
    } else if (!lower_budget(lock, std::max(bytes, budget.bytes() - step))) {
      problem = "what remains is in use, and has not left within 10 s: try again between operators";
    }
  }
  if (problem.empty()) budget.set_bytes(bytes);
  const std::uint64_t reached = budget.bytes();
  setting_budget_ = false;
  publish();
  pump();
  after_change();
  changed_.notify_all();
  lock.unlock();
  if (!problem.empty()) {
    throw Error(Status::kBusy,
                "the budget cannot be " + format_size(bytes) + ", and is " + format_size(reached) + ": " + problem);
  }
}

}  // namespace ebb
