// How large blocks are on a GPU where nobody says, and how many of them may be on their way to or from flash. To change
// a mapping takes the host as long as copying 2 to 50 MiB, however large the block is: the more memory there is, the
// larger they are, as long as there are enough of them to choose from.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ebb/units.h"
#include "runtime/open_flash.h"

namespace ebb {

// Of a GPU's memory at least so many, of so many bytes each.
inline constexpr std::uint64_t kGpuBlocksWanted = 128;
inline constexpr std::uint64_t kGpuBlockBytesLeast = 2 * kMiB;
inline constexpr std::uint64_t kGpuBlockBytesMost = 128 * kMiB;
// Host memory through which goes what comes from flash or goes there: so much, and a quarter of it, at most.
inline constexpr std::uint64_t kGpuStagingBytes = 512 * kMiB;

// strict: nothing shares a block, so they are small.
inline std::uint64_t usual_gpu_block_bytes(std::uint64_t device_memory, bool strict = false) {
  if (strict) return kGpuBlockBytesLeast;
  return std::clamp(std::bit_floor(device_memory / kGpuBlocksWanted), kGpuBlockBytesLeast, kGpuBlockBytesMost);
}

inline std::uint32_t gpu_queue_depth(std::uint64_t block_bytes, std::uint32_t frames, std::uint64_t host_bytes) {
  const std::uint64_t staging = std::min(kGpuStagingBytes, host_bytes / 4);
  const std::uint64_t most = std::min<std::uint64_t>(staging / block_bytes, frames / 4);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 2, kQueueDepth));
}

}  // namespace ebb
