// ForeignMemory: whether a launch may use memory that its Runtime does not manage: asked of the kernel when the
// launch's turn has come, because it may have been unmapped or protected since it was queued.
//
// Owned by a Device; any thread. What changes while a kernel runs is found by the kernel itself, as on any thread.
#pragma once

#include <span>
#include <string>

#include "drivers/linux/process/process_map.h"
#include "ebb/runtime.h"

namespace ebb {

class ForeignMemory {
 public:
  ForeignMemory();
  // Why a kernel with these accesses would be killed, with address, access and mapping; empty: it would not.
  std::string complaint(const Runtime& runtime, std::span<const Access> accesses) const;

 private:
  ProcessMap map_;
  bool known_ = false;  // the kernel can be asked
};

}  // namespace ebb
