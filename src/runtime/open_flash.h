// How the flash tier of a runtime is opened, and limits of a space: for Runtime::open and for DeviceRuntime::open.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "ebb/options.h"
#include "ebb/units.h"
#include "port/raw_flash.h"

namespace ebb {

class FlashFile;

// What a plan takes a disk to carry, for lack of better knowledge. Only the time at which fetches begin depends on it.
inline constexpr double kFlashBytesANs = 1.2;
inline constexpr std::uint64_t kBlockBytesMax = kGiB;
inline constexpr std::uint32_t kExtentsMax = 1u << 22;
inline constexpr std::uint32_t kBlocksMax = 1u << 22;
inline constexpr std::uint32_t kQueueDepth = 32;
// Addresses are free, and room to spare keeps ranges of different sizes from crowding each other.
inline constexpr std::uint64_t kSpaceFactor = 4;
// For so many blocks that memory and flash hold together.
inline std::uint32_t space_blocks(std::uint64_t held) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(held * kSpaceFactor, 4096, kBlocksMax));
}

struct FlashShape {
  std::uint32_t depth = 0;  // requests in flight
  std::size_t block_bytes = 0;
  std::uint32_t extents = 0;  // most that there will be
};

// The flash driver that the options ask for and this machine allows; `description` says which. Throws Error with the
// remedy.
std::unique_ptr<RawFlash> open_flash(const Options& options, FlashFile file, const FlashShape& shape,
                                     std::string& description);

}  // namespace ebb
