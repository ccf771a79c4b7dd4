// Device::Job: a call of parallel_for() under way: parts of a range, taken one by one by the kernel that called and by
// workers that help it.
//
// Lives on the stack of the caller, who leaves when no worker helps any more. Taking parts needs no lock; who helps,
// and what went wrong, is under the device's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>

#include "stream/device.h"

namespace ebb {

struct Device::Job {
  Job(std::size_t count_, std::size_t grain_, const std::function<void(std::size_t, std::size_t)>& body_)
      : count(count_), grain(grain_), body(body_) {}

  // Takes parts until there are none left. What the first failing body throws comes back, and ends the taking.
  std::exception_ptr run() {
    for (std::size_t begin = take(); begin < count; begin = take()) {
      try {
        body(begin, begin + std::min(grain, count - begin));
      } catch (...) {
        next.store(count, std::memory_order_relaxed);
        return std::current_exception();
      }
    }
    return nullptr;
  }
  bool parts_left() const { return next.load(std::memory_order_relaxed) < count; }

  const std::size_t count;
  const std::size_t grain;
  const std::function<void(std::size_t, std::size_t)>& body;
  std::size_t helpers = 0;
  std::exception_ptr error;

 private:
  // Never goes beyond the end, however often it is called: `next` must not wrap around.
  std::size_t take() {
    std::size_t begin = next.load(std::memory_order_relaxed);
    while (begin < count &&
           !next.compare_exchange_weak(begin, begin + std::min(grain, count - begin), std::memory_order_relaxed)) {
    }
    return begin;
  }

  std::atomic<std::size_t> next{0};
};

}  // namespace ebb
