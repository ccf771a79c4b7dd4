// XXH3 compiled for AVX2: same value as the portable variant, chosen at run time by digest.cc.
#if defined(__x86_64__)
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/digest.h"

namespace ebb::internal {

Digest digest_avx2(std::span<const std::byte> bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

}  // namespace ebb::internal
#endif
