// Adoption: the port to memory that the program has mapped itself, and that comes under a runtime's budget where it is.
// Blocks of the space stand for it: from join() to leave() what BackingMemory does to such a block it does to the
// program's memory, at the program's address.
//
// The owner may still unmap it, move it or discard what is in it. Who is in such a call waits until it has been
// noticed: next() of the FaultSource does, and apply_changes(), which takes no lock of the caller's. Memory that was
// unmapped is gone(): attach() and wake() of such a block do nothing, detach() is kBusy.
//
// Threads: judge() and populate() any, without the runtime's lock; apply_changes() any; the others under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/index.h"
#include "ebb/status.h"

namespace ebb {

class Adoption {
 public:
  virtual ~Adoption() = default;

  // kInvalid: memory of a kind that cannot be adopted; `reason` says which, and what would help.
  virtual Status judge(std::span<const std::byte> memory, std::string& reason) const = 0;
  // From now on these blocks stand for the memory at `address`; remove(): no longer. They allocate.
  virtual void add(BlockRange blocks, std::byte* address) = 0;
  virtual void remove(BlockRange blocks) = 0;
  // Before join(): every page of the block exists and is the process's own. kNoMemory; kInvalid: it is not mapped.
  virtual Status populate(BlockIndex block) = 0;
  // The block's memory is watched, as resident memory; or, being resident, is the program's own again.
  // kInvalid: the kernel will not move it (locked), kBusy: somebody else's userfaultfd has it.
  virtual Status join(BlockIndex block) = 0;
  virtual void leave(BlockIndex block) = 0;
  // Whether all of the block has been unmapped by its owner.
  virtual bool gone(BlockIndex block) const = 0;

  // Takes notice of what owners have done. Never allocates.
  virtual void apply_changes() = 0;
  // Whether anything has been unmapped since it was last asked.
  virtual bool changed() = 0;
  // Bytes that the machine can still give.
  virtual std::uint64_t free_bytes() const = 0;
};

}  // namespace ebb
