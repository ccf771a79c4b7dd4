// The digest proves what comes from flash: its variants must agree with each other and with the published XXH3.
#include "base/digest.h"

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

using internal::Lanes;

std::vector<std::byte> noise(std::size_t size) {
  Rng rng(size + 1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

Digest published(const void* bytes, std::size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, size);
  return {hash.low64, hash.high64};
}

// What the header says, lane after lane.
Digest portable(std::span<const std::byte> bytes) {
  if (bytes.size() < kLanesBytesMin) return published(bytes.data(), bytes.size());
  const std::size_t lane = bytes.size() / 4096 * 1024;
  const Digest lanes[4] = {published(bytes.data(), lane), published(bytes.data() + lane, lane),
                           published(bytes.data() + 2 * lane, lane),
                           published(bytes.data() + 3 * lane, bytes.size() - 3 * lane)};
  return published(lanes, sizeof lanes);
}

// Below, at and above every boundary at which XXH3 changes its way of working and lanes begin, and the size of a block.
const std::size_t kSizes[] = {0,   1,   3,    4,    8,    9,     16,    17,      128,     129,
                              240, 241, 1024, 1025, 4096, 32767, 32768, 100'003, 2u << 20};

TEST(Digest, EveryVariantGivesTheSame) {
  for (const std::size_t size : kSizes) {
    const std::vector<std::byte> bytes = noise(size);
    EXPECT_EQ(digest(bytes), portable(bytes)) << size;
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      const Digest expected = internal::digest_portable(bytes, seed, Lanes::kInTurns);
      EXPECT_EQ(expected == portable(bytes), seed == 0) << size;
      for (const Lanes order : {Lanes::kInTurns, Lanes::kOneAfterTheOther}) {
        EXPECT_EQ(internal::digest_portable(bytes, seed, order), expected) << size;
#if defined(__x86_64__)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2")) {
          EXPECT_EQ(internal::digest_avx2(bytes, seed, order), expected) << size;
        }
        if (__builtin_cpu_supports("avx512f")) {
          EXPECT_EQ(internal::digest_avx512(bytes, seed, order), expected) << size;
        }
#endif
      }
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
    return before == portable(bytes) && after == internal::digest_portable(bytes, 7, Lanes::kInTurns) &&
           digest(bytes) == after;
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
  for (const auto& [size, every] : {std::pair<std::size_t, std::size_t>{4096, 101}, {kLanesBytesMin + 77, 997}}) {
    std::vector<std::byte> bytes = noise(size);
    const Digest expected = digest(bytes);
    for (std::size_t bit = 0; bit < bytes.size() * 8; bit += every) {
      const auto mask = static_cast<std::byte>(1u << bit % 8);
      bytes[bit / 8] ^= mask;
      EXPECT_NE(digest(bytes), expected) << bit;
      bytes[bit / 8] ^= mask;
    }
    EXPECT_EQ(digest(bytes), expected);
  }
}

// Leaves a random byte in many a place below, where the next digest has its variables.
[[gnu::noinline]] void scribble(Rng& rng) {
  volatile std::byte below[8192];
  for (int i = 0; i < 64; ++i) below[rng.next() % sizeof below] = static_cast<std::byte>(rng.next());
}

TEST(Digest, DoesNotDependOnWhatAFormerOneHasLeft) {
  const std::vector<std::byte> bytes = noise(kLanesBytesMin);
  const Digest expected = internal::digest_portable(bytes, 7, Lanes::kInTurns);
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    scribble(rng);
    ASSERT_EQ(internal::digest_portable(bytes, 7, Lanes::kInTurns), expected) << i;
  }
}

// Equal parts in another order are another block.
TEST(Digest, TellsLanesThatHaveChangedPlaces) {
  std::vector<std::byte> bytes = noise(kLanesBytesMin);
  const Digest expected = digest(bytes);
  const std::size_t lane = kLanesBytesMin / 4;
  std::swap_ranges(bytes.begin(), bytes.begin() + lane, bytes.begin() + 2 * lane);
  EXPECT_NE(digest(bytes), expected);
}

}  // namespace
}  // namespace ebb
