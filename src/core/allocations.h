// Allocations: ranges of the space for the program's tensors, and those that the runtime keeps for reuse instead of
// giving them back (runtime/cache): to the policy these die, and are born again; to the engine they stay live, with
// their frames, until they are released.
//
// Owned by Core, under the runtime's lock. allocate() allocates, and belongs to the program's threads; release() never
// does.
#pragma once

#include <cstdint>

#include "core/budget.h"
#include "core/state.h"
#include "ebb/status.h"

namespace ebb {

class Allocations {
 public:
  Allocations(CoreState& state, Budget& budget) : state_(state), budget_(budget) {}

  // kNoMemory: neither the budget nor flash can hold it.
  Status allocate(std::uint64_t bytes, std::uint64_t& offset);
  void deallocate(std::uint64_t offset);
  std::uint64_t bytes_of(std::uint64_t offset) const;
  // Its number among all that ever were; 0: nothing that lives begins there.
  std::uint64_t serial_of(std::uint64_t offset) const;
  // The most that has been live at once, but for mapped files.
  std::uint64_t peak_bytes() const { return state_.peak_bytes; }

  void died(std::uint64_t offset);
  void born(std::uint64_t offset);
  std::uint32_t turns(std::uint64_t offset) const;  // how often it has died and been born
  void release(std::uint64_t offset, std::uint64_t bytes);
  void release(std::uint64_t offset) { release(offset, bytes_of(offset)); }
  // Ends a range that was released, and returns its bytes.
  std::uint64_t bury(std::uint64_t offset);

 private:
  bool is_huge(BlockRange blocks) const;
  void give_up(const Heap::Range& range);
  void begin(const Heap::Range& range, BlockRange blocks);

  CoreState& state_;
  Budget& budget_;
};

}  // namespace ebb
