// Heaps: which kind of range lies where, and random operations: whole blocks are nobody else's.
#include "alloc/heaps.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>

#include "base/rng.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 1 << 21;

TEST(Heaps, WholeBlocksAreNobodyElses) {
  Heaps heaps(64, kBlock);
  const std::uint64_t small = heaps.allocate(kBlock / 2 - 1, 1)->offset;
  const std::uint64_t odd = heaps.allocate(kBlock + 1, 2)->offset;
  const std::uint64_t whole = heaps.allocate(kBlock, 3)->offset;
  const std::uint64_t next_odd = heaps.allocate(kBlock / 2, 4)->offset;
  const std::uint64_t next_whole = heaps.allocate(2 * kBlock - 1, 5)->offset;  // is rounded up to whole blocks
  EXPECT_EQ(small, 0u);
  EXPECT_EQ(odd, 16 * kBlock);
  EXPECT_EQ(next_odd, odd + Heap::round_up(kBlock + 1));  // no room is left for a block to begin
  EXPECT_EQ(whole, 40 * kBlock);
  EXPECT_EQ(next_whole, whole + kBlock);
  EXPECT_EQ(heaps.find(next_whole)->serial, 5u);
  EXPECT_EQ(heaps.find(whole + 64), nullptr);
  EXPECT_EQ(heaps.used_bytes(), heaps.live_bytes());
  heaps.validate();
}

TEST(Heaps, PartsWhereBlocksAreFew) {
  for (const std::uint32_t blocks : {4u, 5u, 7u, 9u}) {
    Heaps heaps(blocks, kBlock);
    std::uint64_t whole = 0, odd = 0;
    while (heaps.allocate(kBlock, 1)) ++whole;
    while (heaps.allocate(kBlock - 4096, 1)) ++odd;
    EXPECT_GE(whole, 1u);
    EXPECT_GE(odd, 1u);
    EXPECT_LE(whole + odd, blocks - blocks / 4);
    heaps.validate();
  }
}

TEST(Heaps, WholeBlocksThatNoLongerFitLieBeyond) {
  Heaps heaps(64 + 16, kBlock, 16);
  const std::uint64_t whole = heaps.allocate(20 * kBlock, 1)->offset;
  EXPECT_EQ(whole, 40 * kBlock);
  const std::uint64_t beyond = heaps.allocate(10 * kBlock, 2)->offset;
  EXPECT_EQ(beyond, 64 * kBlock);
  EXPECT_EQ(heaps.allocate(4 * kBlock, 3)->offset, 60 * kBlock);
  EXPECT_FALSE(heaps.allocate(7 * kBlock, 4));
  EXPECT_EQ(heaps.find(beyond)->serial, 2u);
  heaps.validate();
  EXPECT_EQ(heaps.free(beyond).bytes, 10 * kBlock);
  EXPECT_EQ(heaps.allocate(16 * kBlock, 5)->offset, 64 * kBlock);
}

TEST(Heaps, WhatIsParkedIsLive) {
  Heaps heaps(64, kBlock);
  const std::uint64_t offset = heaps.allocate(3 * kBlock, 1)->offset;
  heaps.park(offset);
  EXPECT_EQ(heaps.parked_bytes(), 3 * kBlock);
  EXPECT_EQ(heaps.live_bytes(), 3 * kBlock);
  EXPECT_EQ(heaps.unpark(offset, 2).serial, 2u);
  EXPECT_EQ(heaps.free(offset).turns, 2u);
  EXPECT_EQ(heaps.used_bytes(), 0u);
}

// No two ranges overlap, and no block with a whole range in it has another one.
void fuzz(std::uint64_t seed) {
  Rng rng(seed);
  const std::uint64_t block = std::uint64_t{4096} << rng.below(6);
  const auto blocks = static_cast<std::uint32_t>(rng.between(4, 400));
  Heaps heaps(blocks, block, rng.chance(1, 2) ? blocks / 3 : 0);
  std::map<std::uint64_t, std::uint64_t> live;
  for (int step = 0; step < 400; ++step) {
    if (rng.chance(11, 20)) {
      const std::uint64_t bytes = rng.chance(1, 2) ? block * rng.between(1, 4) : rng.between(1, 3 * block);
      const auto range = heaps.allocate(bytes, static_cast<std::uint64_t>(step));
      if (!range) continue;
      ASSERT_LE(range->offset + range->bytes, blocks * block);
      if (bytes % block == 0) {
        ASSERT_EQ(range->offset % block, 0u) << "seed " << seed;
      }
      const auto after = live.lower_bound(range->offset);
      if (after != live.end()) {
        ASSERT_LE(range->offset + range->bytes, after->first) << "seed " << seed;
      }
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, range->offset) << "seed " << seed;
      }
      live.emplace(range->offset, range->bytes);
    } else if (!live.empty()) {
      const auto which = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng.below(live.size())));
      ASSERT_EQ(heaps.find(which->first)->bytes, which->second);
      ASSERT_EQ(heaps.free(which->first).bytes, which->second);
      live.erase(which);
    }
    if (rng.chance(1, 50)) heaps.step();
    heaps.validate();
  }
  for (const auto& [offset, bytes] : live) heaps.free(offset);
  ASSERT_EQ(heaps.used_bytes(), 0u);
}

TEST(Heaps, AgreeWithAModel) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) fuzz(seed);
}

}  // namespace
}  // namespace ebb
