// OrderedMutex: a mutex that has a place in the one order in which locks are taken. Where EBB_VALIDATE is defined, a
// thread that takes one out of order ends the process there and then, rather than in the rare run in which two threads
// meet; elsewhere it is a std::mutex, and LockOrder is nothing.
//
// What each thread may hold and take: docs/design/0017-threads-and-locks.md.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/check.h"

namespace ebb {

// Who holds one takes only later ones. The caches' of one runtime are taken together, in the order of their threads.
// Who forks (kRuntimes) takes those of one runtime after those of another: nobody else has a reason to take two
// runtimes'.
enum class Rank : std::uint8_t {
  kMirrors,        // the list of mirrors; over a fork
  kMirrorCopy,     // of a mirror: who duplicates pages
  kMirror,         // of a mirror: its directory
  kRuntimes,       // the list of runtimes; over a fork
  kAdopting,       // of a runtime: who adopts or releases
  kRuntime,        // of a runtime: the core
  kAdopted,        // of a runtime: the list of what is adopted
  kCache,          // of a thread's freed ranges
  kAdoptedMemory,  // of a runtime: where adopted blocks lie
};

#ifdef EBB_VALIDATE

struct HeldLocks {
  std::array<Rank, 256> ranks{};  // a fork takes all of all runtimes
  std::size_t count = 0;
};

// What the calling thread holds.
class LockOrder {
 public:
  static void check(Rank rank) {
    const HeldLocks& all = mine();
    bool forks = false;
    for (std::size_t i = 0; i < all.count; ++i) {
      const Rank held = all.ranks[i];
      forks = forks || held == Rank::kRuntimes;
      EBB_CHECK(held < rank || (rank == Rank::kCache && held == rank) || (forks && rank > Rank::kRuntimes));
    }
  }
  static void add(Rank rank) {
    HeldLocks& held = mine();
    EBB_CHECK_LT(held.count, held.ranks.size());
    held.ranks[held.count++] = rank;
  }
  static void remove(Rank rank) {
    HeldLocks& held = mine();
    std::size_t at = held.count;
    while (at > 0 && held.ranks[at - 1] != rank) --at;
    EBB_CHECK_LT(0u, at);
    for (; at < held.count; ++at) held.ranks[at - 1] = held.ranks[at];
    --held.count;
  }
  // Of a thread that is going to wait for a touch of managed memory: who serves it may want what this one holds.
  static bool none_held() { return mine().count == 0; }

 private:
  // Where it is inlined, GCC 12's sanitizers take the address of a thread's variable for null.
  [[gnu::noinline]] static HeldLocks& mine() { return t_held; }

  // Of this model, so that a handler can look at it without an allocation.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit HeldLocks t_held{};
};

template <Rank rank>
class OrderedMutex {
 public:
  void lock() {
    LockOrder::check(rank);
    mutex_.lock();
    LockOrder::add(rank);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    LockOrder::add(rank);
    return true;
  }
  void unlock() {
    LockOrder::remove(rank);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};
using OrderedCondition = std::condition_variable_any;

#else

class LockOrder {
 public:
  static void check(Rank) {}
  static void add(Rank) {}
  static void remove(Rank) {}
  static bool none_held() { return true; }
};
template <Rank>
using OrderedMutex = std::mutex;
using OrderedCondition = std::condition_variable;

#endif

}  // namespace ebb
