// StillMemory: frames that are always at home, under no block: for what needs a BackingMemory and moves nothing in it.
// Stateless; who derives from it says what a frame holds.
#pragma once

#include "port/backing_memory.h"

namespace ebb {

class StillMemory : public BackingMemory {
 public:
  Status create(FrameIndex) override { return Status::kOk; }
  void destroy(FrameIndex) override {}
  void attach(FrameIndex, BlockIndex) override {}
  Status detach(BlockIndex, FrameIndex) override { return Status::kOk; }
  void wake(BlockIndex) override {}
  void fail(BlockIndex) override {}
  void forget_failure(BlockIndex) override {}
};

}  // namespace ebb
