// XXH3 over a block in four lanes. A block comes from the disk, or was used long ago: it lies in memory and not in a
// cache, and what takes time is to read it. On some processors one thread that reads at four places, in turns, reads
// two thirds more; on others, half as much (design/0002). The value is the same. For the files that are a variant for a
// processor, once each: everything here is theirs alone, because it is compiled for that processor.
#pragma once

#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 2048
#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/digest.h"

namespace ebb::internal {

constexpr std::size_t kDigestLanes = 4;
constexpr std::size_t kDigestPieceBytes = 1024;
using LaneHashes = std::array<XXH128_hash_t, kDigestLanes>;

static LaneHashes hash_in_turns(std::span<const std::byte> bytes, std::size_t lane_bytes, std::uint64_t seed) {
  std::array<XXH3_state_t, kDigestLanes> states;
  for (XXH3_state_t& state : states) {
    XXH3_INITSTATE(&state);  // else a reset takes what it finds for what a former one has left
    XXH3_128bits_reset_withSeed(&state, seed);
  }
  for (std::size_t done = 0; done < lane_bytes; done += kDigestPieceBytes) {
    for (std::size_t i = 0; i < kDigestLanes; ++i) {
      XXH3_128bits_update(&states[i], bytes.data() + i * lane_bytes + done, kDigestPieceBytes);
    }
  }
  const std::span<const std::byte> rest = bytes.subspan(kDigestLanes * lane_bytes);
  XXH3_128bits_update(&states.back(), rest.data(), rest.size());
  LaneHashes hashes;
  for (std::size_t i = 0; i < kDigestLanes; ++i) hashes[i] = XXH3_128bits_digest(&states[i]);
  return hashes;
}

static LaneHashes hash_one_by_one(std::span<const std::byte> bytes, std::size_t lane_bytes, std::uint64_t seed) {
  LaneHashes hashes;
  for (std::size_t i = 0; i < kDigestLanes; ++i) {
    const std::size_t first = i * lane_bytes, end = i + 1 < kDigestLanes ? first + lane_bytes : bytes.size();
    hashes[i] = XXH3_128bits_withSeed(bytes.data() + first, end - first, seed);
  }
  return hashes;
}

// Fewer bytes have the digest of XXH3 itself. More have that of the digests of their four quarters, each of whole
// pieces; the last lane has the rest, too.
static Digest digest_in_lanes(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order) {
  if (bytes.size() < kLanesBytesMin) {
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
    return {hash.low64, hash.high64};
  }
  const std::size_t lane_bytes = bytes.size() / kDigestLanes / kDigestPieceBytes * kDigestPieceBytes;
  const LaneHashes hashes =
      order == Lanes::kInTurns ? hash_in_turns(bytes, lane_bytes, seed) : hash_one_by_one(bytes, lane_bytes, seed);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(hashes.data(), sizeof hashes, seed);
  return {hash.low64, hash.high64};
}

}  // namespace ebb::internal
