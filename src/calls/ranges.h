// The registered ranges: which memory of this process is managed. Written by the runtime under a lock of its own, read
// by every interposed call without one, also in signal handlers and in forked children.
//
// Invariant: the hulls enclose every range of their kind; where a buffer misses its hull the call is the kernel's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "calls/table.h"

namespace ebb::calls {

// From begin to end lie all ranges of one kind; empty while there is none.
struct Hull {
  std::atomic<std::uintptr_t> begin{UINTPTR_MAX};
  std::atomic<std::uintptr_t> end{0};

  bool meets(const void* data, std::size_t bytes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return address < end.load(std::memory_order_relaxed) && address + bytes > begin.load(std::memory_order_relaxed);
  }
  bool empty() const { return end.load(std::memory_order_relaxed) == 0; }
};

extern constinit Hull g_absent_hull;  // of kAbsentFails
extern constinit Hull g_our_hull;     // of kOurs
extern constinit Hull g_managed_hull;

// A piece of a buffer that lies wholly within one range, or wholly without.
struct Segment {
  std::size_t bytes;
  bool registered;
};

// The first piece of [data, data + bytes), which is not empty, by ranges that are registered as `kind`.
Segment segment_at(const void* data, std::size_t bytes, Registered kind);

// Whether any of it is registered as `kind`.
bool registered(const void* data, std::size_t bytes, Registered kind);

}  // namespace ebb::calls
