// FaultSource: the port through which touches of absent blocks arrive. The touching thread waits until the block is
// attached, woken or failed through BackingMemory.
//
// Threads: one thread calls next(); any may call the others. next() must not allocate.
#pragma once

#include <cstddef>
#include <span>

#include "base/index.h"

namespace ebb {

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  // Blocks until somebody touches an absent block or interrupt() is called; fills in blocks, returns how many (0 when
  // interrupted).
  virtual std::size_t next(std::span<BlockIndex> blocks) = 0;
  virtual void interrupt() = 0;

  // Gives the calling thread what it needs so that it may wait in a touch whatever its code does with the stack
  // pointer. Any thread, any number of times.
  virtual void prepare_thread() {}
  // Whether the threads that there were at the beginning have it, or need nothing.
  virtual bool threads_prepared() const { return true; }
};

}  // namespace ebb
