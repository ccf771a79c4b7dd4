// Digest: the 128-bit XXH3 checksum of a block's bytes. Two uses, one number: it proves that what was read from flash
// is what was written, and a block whose digest equals that of its copy on flash need not be written again.
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

// The same value whatever the processor; the widest vectors that it has are used.
Digest digest(std::span<const std::byte> bytes);

namespace internal {
Digest digest_avx2(std::span<const std::byte> bytes);
Digest digest_avx512(std::span<const std::byte> bytes);
}  // namespace internal

}  // namespace ebb
