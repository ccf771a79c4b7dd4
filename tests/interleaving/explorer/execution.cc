// See execution.h: who has the turn.
#include "interleaving/explorer/execution.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/check.h"

extern "C" const char __executable_start;

namespace ebb::interleaving {
namespace {

constexpr std::uint64_t kForcedMax = 64;

[[gnu::tls_model("initial-exec")]] thread_local constinit Execution* t_execution = nullptr;

const char* name(Kind kind) {
  constexpr std::array kNames{"load",   "store", "update", "fence", "lock", "try lock",
                              "unlock", "wait",  "notify", "join",  "yield"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name(std::memory_order order) {
  constexpr std::array kNames{"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return kNames[static_cast<std::size_t>(order)];
}

void* call_function(void* function) {
  (*static_cast<const std::function<void()>*>(function))();
  return nullptr;
}

}  // namespace

[[gnu::tls_model("initial-exec")]] thread_local constinit int t_unwatched = 1;

Beforehand::Beforehand() { ++t_unwatched; }
Beforehand::~Beforehand() { --t_unwatched; }

Execution* current_execution() { return t_unwatched == 0 ? t_execution : nullptr; }

// When a thread's own objects have been destroyed.
struct Execution::Ended {
  pthread_key_t key{};
  Ended() {
    ::pthread_key_create(&key, [](void* execution) {
      ++t_unwatched;
      static_cast<Execution*>(execution)->end_thread();
    });
  }
};

void Execution::give_turn(std::size_t thread) {
  current_ = thread;
  __atomic_store_n(&threads_[thread].turn, 1u, __ATOMIC_RELEASE);
  ::syscall(SYS_futex, &threads_[thread].turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Execution::await_turn(std::size_t thread) {
  while (__atomic_load_n(&threads_[thread].turn, __ATOMIC_ACQUIRE) == 0) {
    ::syscall(SYS_futex, &threads_[thread].turn, FUTEX_WAIT_PRIVATE, 0u, nullptr, nullptr, 0);
  }
  threads_[thread].turn = 0;
}

void* Execution::begin_thread(void* start) {
  static const Ended ended;
  const Start given = *static_cast<Start*>(start);
  t_execution = given.execution;
  ::pthread_setspecific(ended.key, given.execution);
  t_unwatched = 0;
  return given.body(given.argument);
}

// It runs to its first operation, and its maker goes on then.
std::uint64_t Execution::spawn(void* (*body)(void*), void* argument) {
  const Unwatched unwatched;
  EBB_CHECK_LT(count_, kThreadsMax);
  const std::size_t maker = current_, thread = count_++;
  threads_[thread].maker = maker;
  threads_[thread].priority = options_.random > 0 ? choices_.next(kThreadsMax * kThreadsMax) + kThreadsMax : 0;
  model_.begin(thread, maker);
  starts_[thread] = {this, body, argument};
  current_ = thread;
  pthread_t handle{};
  EBB_CHECK_EQ(::pthread_create(&handle, nullptr, begin_thread, &starts_[thread]), 0);
  threads_[thread].handle = handle;
  await_turn(maker);
  return handle;
}

void Execution::end_thread() {
  const Thread& ended = self();
  const bool at_once = ended.state == State::kNew;
  self().state = State::kDone;
  give_turn(at_once ? ended.maker : choose());
}

bool Execution::run(const Scenario& scenario) {
  model_.clear();
  for (const std::function<void()>& thread : scenario.threads) {
    spawn(call_function, const_cast<std::function<void()>*>(&thread));
  }
  if (const std::size_t first = choose(); first != 0) {
    give_turn(first);
    await_turn(0);
  }
  for (std::size_t i = 1; i <= scenario.threads.size(); ++i) {
    if (stuck_) {
      ::pthread_detach(threads_[i].handle);
    } else {
      ::pthread_join(threads_[i].handle, nullptr);
    }
  }
  ++findings_.executions;
  findings_.steps += steps_.size();
  if (cut_) ++findings_.cut;
  return !stuck_;
}

void Execution::arrive(Operation operation) {
  const std::size_t me = current_;
  Thread& mine = self();
  mine.spins = operation.kind == Kind::kLoad && visited(operation);
  mine.spins_since = writes_;
  mine.pending = operation;
  const bool begins = std::exchange(mine.state, State::kReady) == State::kNew;
  const std::size_t next = begins ? mine.maker : choose();
  if (next != me) {
    give_turn(next);
    await_turn(me);
  }
  mine.spins = false;
}

bool Execution::is_held(const void* mutex) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& held) { return held.first == mutex; });
}

bool Execution::can_run(std::size_t thread) const {
  const Thread& there = threads_[thread];
  if (there.state != State::kReady || (there.spins && there.spins_since == writes_)) return false;
  switch (there.pending.kind) {
    case Kind::kLock: return !is_held(there.pending.object);
    case Kind::kWait: return there.notified;
    case Kind::kJoin: return threads_[there.joins].state == State::kDone;
    default: return true;
  }
}

bool Execution::fully_asleep(std::size_t thread) {
  const Thread& there = threads_[thread];
  if (there.asleep == 0 || there.asleep == kAll || there.pending.kind != Kind::kLoad) return there.asleep == kAll;
  return there.asleep >= model_.values(there.pending.object, there.pending.bytes);
}

// Who goes on. 0: nobody, it is over.
std::size_t Execution::choose() {
  std::array<std::size_t, kThreadsMax> ready{};
  std::size_t count = 0;
  const std::size_t first = current_ == 0 ? 1 : current_ + (free_ ? 1 : 0);
  for (std::size_t i = 0; i + 1 < count_; ++i) {
    const std::size_t thread = (first - 1 + i) % (count_ - 1) + 1;
    if (can_run(thread)) ready[count++] = thread;
  }
  if (count == 0) return choose_waiting();
  if (steps_.size() >= options_.steps_max) {
    fail("it goes on without end");
    stuck_ = true;
    return 0;
  }
  if (free_) return ready[0];
  if (options_.random > 0) return choose_by_lot(ready.data(), count);
  if (!options_.reduce) return ready[choices_.next(count)];
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_contended(threads_[ready[i]].pending)) return ready[i];
  }
  std::array<std::size_t, kThreadsMax> awake{};
  std::size_t options = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!fully_asleep(ready[i])) awake[options++] = ready[i];
  }
  if (options == 0) {
    cut();
    return ready[0];
  }
  const std::size_t at = choices_.next(options);
  for (std::size_t i = 0; i < at; ++i) {
    Thread& tried = threads_[awake[i]];
    tried.asleep = tried.pending.kind == Kind::kLoad ? model_.values(tried.pending.object, tried.pending.bytes) : kAll;
  }
  return awake[at];
}

// Half of the executions: anybody at each step. The others: who has the highest priority, and a few times one loses his
// (Burckhardt et al., ASPLOS 2010): an order that takes d changes is found with a chance that falls with d only.
std::size_t Execution::choose_by_lot(std::size_t* ready, std::size_t count) {
  constexpr std::size_t kChangeEvery = 128;
  constexpr std::uint64_t kLowest = kThreadsMax;
  if (findings_.executions % 2 == 0) return ready[choices_.next(count)];
  if (choices_.next(kChangeEvery) == 0) self().priority = kLowest - ++lowest_ % kLowest;
  return *std::max_element(ready, ready + count,
                           [&](std::size_t a, std::size_t b) { return threads_[a].priority < threads_[b].priority; });
}

// Nobody can go on. Where somebody waits for a time, it comes. Who waits for something to be written sees what has been
// written in the end: each in turn reads what is newest.
std::size_t Execution::choose_waiting() {
  std::size_t sleeper = 0;
  bool all_done = true;
  for (std::size_t i = 0; i + 1 < count_; ++i) {
    const std::size_t thread = (current_ + i) % (count_ - 1) + 1;
    Thread& there = threads_[thread];
    all_done = all_done && there.state == State::kDone;
    if (there.state != State::kReady) continue;
    const bool times_out = there.pending.kind == Kind::kWait && there.until_ns > 0;
    if (times_out && (sleeper == 0 || there.until_ns < threads_[sleeper].until_ns)) sleeper = thread;
    if (!there.spins || ++forced_ > kForcedMax) continue;
    there.newest_only = true;
    return thread;
  }
  if (all_done) return 0;
  if (sleeper != 0 && steps_.size() < options_.steps_max) {
    const std::uint64_t then_ns = std::max(now_ns_, threads_[sleeper].until_ns);
    if (then_ns - now_ns_ > options_.patience_ns) fail("all wait for a time to pass");
    now_ns_ = then_ns;
    return sleeper;
  }
  fail("no thread can go on");
  stuck_ = true;
  return 0;
}

void Execution::stop_for_ever() {
  const bool at_once = self().state == State::kNew;
  self().state = State::kDone;
  stuck_ = true;
  give_turn(at_once ? self().maker : choose());
  for (;;) ::pause();
}

void Execution::fail(const std::string& what) {
  free_ = true;
  if (findings_.failure.empty()) findings_.failure = what + '\n' + story();
}

// The last steps. Places in the code as addr2line takes them.
std::string Execution::story() const {
  constexpr std::size_t kStepsShown = 200;
  std::string text;
  for (std::size_t i = steps_.size() - std::min(steps_.size(), kStepsShown); i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    char line[160];
    std::snprintf(line, sizeof line, "  thread %zu: %s %s of %p, value %llu%s, at 0x%zx\n", step.thread,
                  name(step.operation.order), name(step.operation.kind), step.operation.object,
                  static_cast<unsigned long long>(step.value), step.behind > 0 ? " (not the newest)" : "",
                  static_cast<std::size_t>(static_cast<const char*>(step.operation.site) - &__executable_start));
    text += line;
  }
  return text;
}

}  // namespace ebb::interleaving
