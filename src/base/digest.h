// Digest: the 128-bit checksum of a block's bytes, by XXH3. Two uses, one number: it proves that what was read from
// flash is what was written, and a block whose digest equals that of its copy on flash need not be written again.
//
// It never leaves the process and its forked children. A runtime seeds it at random, so that who chooses a program's
// data cannot prepare two contents that have the same (0002); simulation and tests have seed 0, and then few bytes have
// the published XXH3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb {

struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend constexpr bool operator==(const Digest&, const Digest&) = default;
};

// The same value whatever the processor; the widest vectors that it has are used. From kLanesBytesMin on it is XXH3 of
// the XXH3 of four parts (digest/lanes.h).
inline constexpr std::size_t kLanesBytesMin = 32768;
Digest digest(std::span<const std::byte> bytes);

// For all digests of this process from now on; call before the first of them. Once: later calls change nothing.
void seed_digests(std::uint64_t seed);

namespace internal {
enum class Lanes { kInTurns, kOneAfterTheOther };  // how the four parts are read
Digest digest_portable(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order);
Digest digest_avx2(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order);
Digest digest_avx512(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order);
}  // namespace internal

}  // namespace ebb
