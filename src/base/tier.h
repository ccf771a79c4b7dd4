// Tier: the kinds of memory that a block can be in, and Lane: the directions in which it moves between them. The
// program works on the device tier (of a CPU-only machine: the memory budget); host and flash lie below it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb {

enum class Tier : std::uint8_t { kDevice, kHost, kFlash };

// Of the tiers below the device, for what is kept by tier.
inline constexpr std::size_t kTiersBelow = 2;
constexpr std::size_t index_below(Tier below) { return below == Tier::kHost ? 0 : 1; }

enum class Lane : std::uint8_t { kHostOut, kFlashOut, kHostIn, kFlashIn };
inline constexpr std::size_t kLanes = 4;

constexpr Lane lane_out(Tier below) { return below == Tier::kHost ? Lane::kHostOut : Lane::kFlashOut; }
constexpr Lane lane_in(Tier below) { return below == Tier::kHost ? Lane::kHostIn : Lane::kFlashIn; }

}  // namespace ebb
