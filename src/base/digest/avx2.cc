// The digest compiled for AVX2: same value as the portable variant, chosen at run time by digest.cc.
#if defined(__x86_64__)
#include "base/digest/lanes.h"

namespace ebb::internal {

Digest digest_avx2(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order) {
  return digest_in_lanes(bytes, seed, order);
}

}  // namespace ebb::internal
#endif
