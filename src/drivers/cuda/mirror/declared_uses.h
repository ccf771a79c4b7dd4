// DeclaredUses: what a launch on the process's memory says that it touches, checked against what is mapped at this
// moment, and the part of it that a Runtime manages.
//
// Made by a launch, for itself; one thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "drivers/linux/process/process_map.h"
#include "ebb/runtime.h"
#include "ebb/use.h"

namespace ebb::cuda {

// Who asks, for messages, and whose managed memory may be among the uses; that may be null.
struct LaunchFacts {
  const std::string& kernel;
  Runtime* runtime;
};

// The accesses to managed memory. Throws Error(kInvalid, kCorrupt) naming the kernel, address, access and mapping.
std::vector<Access> check_uses(const LaunchFacts& facts, const ProcessMap& map, std::span<const Use> uses);
// Throws Error for a launch: "launch of the CUDA kernel 'scale' failed: …".
[[noreturn]] void refuse(const LaunchFacts& facts, Status status, const std::string& why);
std::string hex(const void* address);

}  // namespace ebb::cuda
