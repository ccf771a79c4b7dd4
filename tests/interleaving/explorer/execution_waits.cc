// See execution.h: mutexes, conditions and the ends of threads.
#include <algorithm>
#include <utility>

#include "interleaving/explorer/execution.h"

namespace ebb::interleaving {

void Execution::lock(const void* mutex, const void* site) {
  const Unwatched unwatched;
  const Operation operation{Kind::kLock, std::memory_order_acquire, mutex, 0, site};
  arrive(operation);
  self().asleep = 0;
  note(operation, 0, 0);
  held_.emplace_back(mutex, current_);
  model_.acquire(current_, mutex);
  made_progress(false);
  wake_dependents(operation);
}

bool Execution::try_lock(const void* mutex, const void* site) {
  const Unwatched unwatched;
  const Operation operation{Kind::kTryLock, std::memory_order_acquire, mutex, 0, site};
  arrive(operation);
  self().asleep = 0;
  const bool taken = !is_held(mutex);
  note(operation, taken ? 1 : 0, 0);
  if (taken) {
    held_.emplace_back(mutex, current_);
    model_.acquire(current_, mutex);
    made_progress(false);
  }
  wake_dependents(operation);
  return taken;
}

void Execution::unlock(const void* mutex, const void* site) {
  const Unwatched unwatched;
  const Operation operation{Kind::kUnlock, std::memory_order_release, mutex, 0, site};
  arrive(operation);
  self().asleep = 0;
  note(operation, 0, 0);
  release(mutex);
  wake_dependents(operation);
}

void Execution::release(const void* mutex) {
  const auto found = std::find_if(held_.begin(), held_.end(), [&](const auto& held) { return held.first == mutex; });
  if (found == held_.end()) {
    fail("a mutex is unlocked that nobody holds");
  } else {
    held_.erase(found);
  }
  model_.release(current_, mutex);
  made_progress(true);
}

// Lets go of the mutex and waits, in one step. False: the time was over first.
bool Execution::wait(const void* condition, const void* mutex, std::uint64_t until_ns, const void* site) {
  bool in_time = true;
  {
    const Unwatched unwatched;
    const Operation operation{Kind::kUnlock, std::memory_order_release, mutex, 0, site};
    arrive(operation);
    note(operation, 0, 0);
    release(mutex);
    self().notified = false;
    self().until_ns = until_ns;
    arrive({Kind::kWait, std::memory_order_relaxed, condition, 0, site});
    in_time = self().notified;
    note({Kind::kWait, std::memory_order_relaxed, condition, 0, site}, in_time ? 1 : 0, 0);
  }
  lock(mutex, site);
  return in_time;
}

void Execution::notify(const void* condition, bool all, const void* site) {
  const Unwatched unwatched;
  const Operation operation{Kind::kNotify, std::memory_order_relaxed, condition, 0, site};
  arrive(operation);
  note(operation, all ? 1 : 0, 0);
  std::array<std::size_t, kThreadsMax> waiting{};
  std::size_t count = 0;
  for (std::size_t i = 1; i < count_; ++i) {
    const Thread& there = threads_[i];
    const bool waits = there.state == State::kReady && there.pending.kind == Kind::kWait;
    if (waits && there.pending.object == condition && !there.notified) waiting[count++] = i;
  }
  if (count == 0) return;
  if (!all) {
    threads_[waiting[choices_.next(count)]].notified = true;
    return;
  }
  for (std::size_t i = 0; i < count; ++i) threads_[waiting[i]].notified = true;
}

// Its handle, for the real thing.
void Execution::join(std::uint64_t handle, const void* site) {
  const Unwatched unwatched;
  for (std::size_t i = 1; i < count_; ++i) {
    if (threads_[i].handle == handle) self().joins = i;
  }
  const Operation operation{Kind::kJoin, std::memory_order_acquire, &threads_[self().joins], 0, site};
  arrive(operation);
  note(operation, 0, 0);
  model_.end(self().joins, current_);
  made_progress(false);
}

void Execution::yield(const void* site) {
  const Unwatched unwatched;
  arrive({Kind::kYield, std::memory_order_relaxed, nullptr, 0, site});
}

}  // namespace ebb::interleaving
