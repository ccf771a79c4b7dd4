// ManagedMemory: memory of a Runtime that a kernel on the process's memory works on: announced, held in
// memory as a whole, and brought home before the Runtime may move it again.
//
// A GPU's fault cannot wait for userfaultfd: the kernel serves it without leave to retry (hmm_range_fault(), as of
// Linux 6.18), so that what is absent would end CUDA. And pages that lie in a GPU's memory cannot be moved by
// UFFDIO_MOVE.
//
// On the stack of the thread that launches, around the kernel; one thread.
#pragma once

#include <cstdint>
#include <span>

#include "drivers/cuda/mirror/declared_uses.h"

namespace ebb::cuda {

class ManagedMemory {
 public:
  // Throws Error(kNoMemory) when it is too much to be held.
  ManagedMemory(const LaunchFacts& facts, const ProcessMap& map, std::span<const Access> accesses);
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;
  ~ManagedMemory() { give_back(); }
  // From now on a kernel uses it: if nobody says that it is over, the memory stays where it is for ever.
  void keep() { is_kept_ = true; }
  // The kernel is over.
  void end() {
    is_kept_ = false;
    give_back();
  }

 private:
  void give_back();

  Runtime& runtime_;
  const std::span<const Access> accesses_;
  std::uint64_t ticket_ = 0;
  bool is_announced_ = false;
  bool is_kept_ = false;
};

}  // namespace ebb::cuda
