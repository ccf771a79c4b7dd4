// What a launch declares, checked, and as the graph and as the Runtime want it.
//
// Pure functions; called by the launching thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ebb/runtime.h"
#include "ebb/stream.h"
#include "stream/hazards.h"

namespace ebb {

// One for each use, in their order. Throws Error(kInvalid) naming the launch: a null pointer, a range that wraps
// around.
std::vector<UsedBytes> used_bytes(const std::string& launch, std::span<const Use> uses);

// `used`: of the same uses.
std::vector<Access> accesses_of(std::span<const Use> uses, std::span<const UsedBytes> used);

}  // namespace ebb
