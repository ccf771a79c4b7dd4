// How large blocks are on a GPU where nobody says. Each change of a mapping costs the host as much time as copying 2 to
// 8 MiB: the more memory there is, the larger they are, as long as there are enough of them to choose from.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ebb/units.h"
#include "runtime/open_flash.h"

namespace ebb {

// Of a GPU's memory at least so many, of at most so many bytes each.
inline constexpr std::uint64_t kGpuBlocksWanted = 512;
inline constexpr std::uint64_t kGpuBlockBytesMost = 32 * kMiB;

inline std::uint64_t usual_gpu_block_bytes(std::uint64_t device_memory) {
  return std::clamp(std::bit_floor(device_memory / kGpuBlocksWanted), kBlockBytesUsual, kGpuBlockBytesMost);
}

}  // namespace ebb
