// AdoptedRanges: whole blocks of addresses for memory that the program has mapped itself and that is adopted where it
// is (runtime/adopt): reserve(), then adopt() and Engine::disown(), or Engine::abandon(), block by block as the engine
// has them, then unreserve().
//
// Owned by Core, under the runtime's lock. reserve() allocates.
#pragma once

#include <cstdint>

#include "core/budget.h"
#include "core/state.h"
#include "ebb/status.h"

namespace ebb {

class AdoptedRanges {
 public:
  AdoptedRanges(CoreState& state, Budget& budget) : state_(state), budget_(budget) {}

  // `offset` names the allocation that they are for the policy. kNoMemory: no places for so many blocks; kBusy: try
  // again.
  Status reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset);
  void unreserve(BlockRange blocks, std::uint64_t offset);
  bool adopt(BlockIndex block);
  // Wants a block of it in memory, as the most recently used; it stays there until some others have been wanted so.
  void want(BlockIndex block);
  // Wants blocks behind it, which may leave again.
  void want_ahead(BlockIndex block);

 private:
  CoreState& state_;
  Budget& budget_;
};

}  // namespace ebb
