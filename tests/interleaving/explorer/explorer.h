// Explorer: runs a few threads again and again, once in each order that can make a difference, and lets each atomic
// load return each value that C++ allows there. What it runs is the product's code as it is: compiled with
// -fsanitize=thread, whose calls at each access to memory come here (hooks.cc) in place of to the sanitizer's library.
//
// The threads are real ones, of which one runs at a time: it stops before each atomic operation, and before each
// operation on a mutex, and says what it is about to do. Depth first over who goes on and what is read; orders that
// differ by steps that do not depend on each other are tried once (sleep sets, Godefroid 1996). What nobody else uses
// is no reason to choose: which operations these are is learned, and all begins anew where one turns out to be none of
// them.
//
// A thread that has read the same again, at the same place in the code, waits until something is written: so loops that
// wait end. Invariant: a scenario does the same whenever the same is chosen.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace ebb::interleaving {

enum class Kind : std::uint8_t {
  kLoad,
  kStore,
  kUpdate,
  kFence,
  kLock,
  kTryLock,
  kUnlock,
  kWait,
  kNotify,
  kJoin,
  kYield
};

// Made anew for each execution. What the functions share lives as long as they do.
struct Scenario {
  std::vector<std::function<void()>> threads;
  std::function<void()> end;  // when all of them have ended; may be empty
};

// An atomic operation in the program: where it was called from.
struct Site {
  const void* address = nullptr;
  Kind kind = Kind::kLoad;
  std::memory_order order = std::memory_order_seq_cst;
};

struct Options {
  std::uint64_t executions_max = 2'000'000;
  // The operation at this place has this order, whatever the program says; a fence that is relaxed is none.
  const void* weakened = nullptr;
  std::memory_order weakened_to = std::memory_order_relaxed;
  bool reduce = true;  // tries once what differs in the order of independent steps only
  // So many executions by lot in place of all of them.
  std::uint64_t random = 0;
  std::uint64_t seed = 1;
  bool newest_only = false;  // loads return what was written last, whatever the order says
  bool races = true;         // plain accesses are looked at
  std::size_t steps_max = 20'000;
  std::uint64_t patience_ns = ~std::uint64_t{0};  // all threads together wait no longer for a time to pass
};

struct Findings {
  std::string failure;           // empty: none
  bool all = false;              // every order was tried
  std::uint64_t executions = 0;  // since all began anew for the last time
  std::uint64_t steps = 0;
  std::uint64_t cut = 0;    // of them: ended without their end being looked at, because another one is the same
  std::vector<Site> sites;  // atomic operations with an order of more than relaxed
  // Places of operations that met another thread's on the same object. Those of the others need no orders of their own.
  std::set<const void*> contended;
};

Findings explore(const std::function<Scenario()>& make, const Options& options = {});

// The scenario again, with each operation in turn weaker by one step.
struct Weakening {
  Site site;
  std::memory_order order = std::memory_order_relaxed;
  Findings findings;
};
std::vector<Weakening> weaken_each(
    const std::function<Scenario()>& make,
    const std::function<bool(const Site&)>& which = [](const Site&) { return true; });

// For scenarios: what must hold; and: what follows is not worth looking at, as another execution is the same.
void require(bool holds, const char* what);
void same_as_another();

// A word of 8 bytes that copies of memory read and write while others do, as under a sequence lock: each copy of it is
// one relaxed operation. What lies beside it in the same copy is not looked at. Called where a scenario is made.
void share(const void* word);

// While it lives, its thread's operations are not looked at: for what a thread does before the others have begun.
class Beforehand {
 public:
  Beforehand();
  ~Beforehand();
  Beforehand(const Beforehand&) = delete;
  Beforehand& operator=(const Beforehand&) = delete;
};

// What the calling thread does is looked at while this is 0 (hooks.cc).
[[gnu::tls_model("initial-exec")]] extern thread_local constinit int t_unwatched;
inline bool watched() { return t_unwatched == 0; }
std::uint64_t on_load(const void* object, std::size_t bytes, std::memory_order order, const void* site);
void on_store(void* object, std::size_t bytes, std::uint64_t value, std::memory_order order, const void* site);
// `change`: of the newest value; false: nothing is written.
using Change = bool (*)(std::uint64_t& value, std::uint64_t operand, std::uint64_t expected);
struct Updated {
  std::uint64_t before = 0;
  bool changed = false;
};
Updated on_update(void* object, std::size_t bytes, Change change, std::uint64_t operand, std::uint64_t expected,
                  std::memory_order order, std::memory_order failed, const void* site);
void on_fence(std::memory_order order, const void* site);
void on_access(const void* address, std::size_t bytes, bool write);
void on_copy(void* to, const void* from, std::size_t bytes, const void* site);
void on_free(const void* address, std::size_t bytes);
std::uint64_t on_spawn(void* (*body)(void*), void* argument);
void on_join(std::uint64_t handle, const void* site);
bool on_wait(const void* condition, const void* mutex, std::uint64_t until_ns, const void* site);
void on_notify(const void* condition, bool all, const void* site);
void on_yield(const void* site);
std::uint64_t on_clock();
void on_lock(const void* mutex, const void* site);
bool on_try_lock(const void* mutex, const void* site);
void on_unlock(const void* mutex, const void* site);
[[noreturn]] void on_failed_check(const char* what);

}  // namespace ebb::interleaving
