// The digest proves what comes from flash: its variants must agree with each other and with the published XXH3.
#include "base/digest.h"

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

std::vector<std::byte> noise(std::size_t size) {
  Rng rng(size + 1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

Digest portable(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

// Below, at and above every boundary at which XXH3 changes its way of working, and the size of a block.
const std::size_t kSizes[] = {0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 4096, 100'003, 2u << 20};

TEST(Digest, EveryVariantGivesTheSame) {
  for (const std::size_t size : kSizes) {
    const std::vector<std::byte> bytes = noise(size);
    EXPECT_EQ(digest(bytes), portable(bytes)) << size;
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      const Digest expected = internal::digest_portable(bytes, seed);
      EXPECT_EQ(expected == portable(bytes), seed == 0) << size;
#if defined(__x86_64__)
      __builtin_cpu_init();
      if (__builtin_cpu_supports("avx2")) {
        EXPECT_EQ(internal::digest_avx2(bytes, seed), expected) << size;
      }
      if (__builtin_cpu_supports("avx512f")) {
        EXPECT_EQ(internal::digest_avx512(bytes, seed), expected) << size;
      }
#endif
    }
  }
}

// In a process of its own: a seed is for good.
TEST(DigestDeathTest, ASeedIsForGood) {
  const auto seeded = [] {
    const std::vector<std::byte> bytes = noise(5000);
    const Digest before = digest(bytes);
    seed_digests(7);
    const Digest after = digest(bytes);
    seed_digests(8);
    return before == portable(bytes) && after == internal::digest_portable(bytes, 7) && digest(bytes) == after;
  };
  EXPECT_EXIT(::_exit(seeded() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(Digest, DoesNotDependOnAlignment) {
  const std::vector<std::byte> bytes = noise(5000);
  const std::span<const std::byte> content = std::span(bytes).first(4096);
  const Digest expected = digest(content);
  for (std::size_t shift = 1; shift < 64; shift += 7) {
    std::vector<std::byte> moved(5000);
    std::memcpy(moved.data() + shift, content.data(), content.size());
    EXPECT_EQ(digest(std::span(moved).subspan(shift, content.size())), expected) << shift;
  }
}

TEST(Digest, TellsEveryFlippedBit) {
  std::vector<std::byte> bytes = noise(4096);
  const Digest expected = digest(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 101) {
    const auto mask = static_cast<std::byte>(1u << bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_NE(digest(bytes), expected) << bit;
    bytes[bit / 8] ^= mask;
  }
  EXPECT_EQ(digest(bytes), expected);
}

}  // namespace
}  // namespace ebb
