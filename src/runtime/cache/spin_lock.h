// SpinLock: for sections of some tens of nanoseconds that allocate nothing, wait for nothing and touch no managed
// memory, so that also the fault thread may take one. A holder that has lost its core is given it back: who waits
// yields.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/ordered_mutex.h"

namespace ebb {

class SpinLock {
 public:
  void lock() {
    LockOrder::check(Rank::kCache);
    for (int spins = 0; held_.exchange(true, std::memory_order_acquire);) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++spins > kSpinsMax) ::sched_yield();
      }
    }
    LockOrder::add(Rank::kCache);
  }
  void unlock() {
    LockOrder::remove(Rank::kCache);
    held_.store(false, std::memory_order_release);
  }

 private:
  static constexpr int kSpinsMax = 100;

  std::atomic<bool> held_{false};
};

}  // namespace ebb
