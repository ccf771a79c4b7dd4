// XXH3 over a block in four lanes at once. A block comes from the disk, or was used long ago: it lies in memory and not
// in a cache, and what takes time is to read it. One thread that reads at four places, in turns, reads two thirds
// more (design/0002). For the files that are a variant for a processor, once each: everything here is theirs alone,
// because it is compiled for that processor.
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

// Fewer bytes have the digest of XXH3 itself. More have that of the digests of their four quarters, each of whole
// pieces; the last lane has the rest, too.
static Digest digest_in_lanes(std::span<const std::byte> bytes, std::uint64_t seed) {
  constexpr std::size_t kLanes = 4;
  constexpr std::size_t kPieceBytes = 1024;
  if (bytes.size() < kLanesBytesMin) {
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
    return {hash.low64, hash.high64};
  }
  std::array<XXH3_state_t, kLanes> states;
  for (XXH3_state_t& state : states) {
    XXH3_INITSTATE(&state);  // else a reset takes what it finds for what a former one has left
    XXH3_128bits_reset_withSeed(&state, seed);
  }
  const std::size_t lane_bytes = bytes.size() / kLanes / kPieceBytes * kPieceBytes;
  for (std::size_t done = 0; done < lane_bytes; done += kPieceBytes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      XXH3_128bits_update(&states[i], bytes.data() + i * lane_bytes + done, kPieceBytes);
    }
  }
  const std::span<const std::byte> rest = bytes.subspan(kLanes * lane_bytes);
  XXH3_128bits_update(&states.back(), rest.data(), rest.size());
  std::array<XXH128_hash_t, kLanes> hashes;
  for (std::size_t i = 0; i < kLanes; ++i) hashes[i] = XXH3_128bits_digest(&states[i]);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(hashes.data(), sizeof hashes, seed);
  return {hash.low64, hash.high64};
}

}  // namespace ebb::internal
