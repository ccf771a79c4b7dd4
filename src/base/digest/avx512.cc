// The digest compiled for AVX512: same value as the portable variant, chosen at run time by digest.cc.
#if defined(__x86_64__)
// GCC 12 takes the undefined operands of its own AVX-512 intrinsics for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "base/digest/lanes.h"

namespace ebb::internal {

Digest digest_avx512(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order) {
  return digest_in_lanes(bytes, seed, order);
}

}  // namespace ebb::internal
#endif
