// SpaceMemory: backing memory at real addresses, with the faults on it: what a runtime needs beyond the core.
//
// The space is not inherited by fork: a child that inherited it would see absent blocks as zeros. enter_child() gives
// the child an empty space at the same addresses, whose faults it serves itself through place().
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "port/adoption.h"
#include "port/backing_memory.h"
#include "port/fault_source.h"

namespace ebb {

class SpaceMemory : public BackingMemory, public FaultSource {
 public:
  virtual std::byte* base() const = 0;
  virtual std::size_t bytes() const = 0;
  // One line for people: mechanism, privilege rung, what is lost on it.
  virtual std::string description() const = 0;

  // From now on nothing of the space, nor of frames at home, is in a core dump; memory that is adopted is.
  virtual void leave_out_of_core_dumps() = 0;

  // What adopts memory of the program's own, made when first asked for; null with the reason where that is not to be
  // had. Under the runtime's lock.
  virtual Adoption* adoption(std::string& reason) = 0;

  // Around fork(), by the forking thread. `stay`: resident blocks that detach() has refused to move; a child gets what
  // is in them by copy-on-write, where they are. after_fork(): in the parent.
  virtual void before_fork(std::span<const BlockIndex> stay) = 0;
  virtual void after_fork() = 0;
  // In a forked child, by its only thread, before anything touches the space. Where that fails, or nobody can serve its
  // faults (close_child), a touch fails.
  virtual Status enter_child() = 0;
  virtual void close_child() = 0;
  // In a child: gives an absent block this content (empty: zeros) and wakes who waits.
  virtual void place(BlockIndex block, std::span<const std::byte> content) = 0;
};

}  // namespace ebb
