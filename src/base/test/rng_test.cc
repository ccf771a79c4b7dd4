// Rng: seeds in bug reports must mean the same everywhere and for ever, so the very numbers are pinned.
#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace ebb {
namespace {

TEST(Rng, IsSplitMix64) {
  Rng rng(1234567);
  // The first outputs of the reference implementation for this seed.
  EXPECT_EQ(rng.next(), 6457827717110365317ull);
  EXPECT_EQ(rng.next(), 3203168211198807973ull);
  EXPECT_EQ(rng.next(), 9817491932198370423ull);
}

TEST(Rng, StaysWithinBounds) {
  Rng rng(5);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) {
    ++seen[rng.below(7)];
    const std::uint64_t value = rng.between(10, 12);
    EXPECT_TRUE(value >= 10 && value <= 12);
  }
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(Rng, ChanceOfNothingAndOfAll) {
  Rng rng(6);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(rng.chance(0, 3));
    EXPECT_TRUE(rng.chance(3, 3));
  }
}

TEST(Rng, SplitsIntoStreamsOfTheirOwn) {
  Rng parent(9);
  Rng first = parent.split();
  Rng second = parent.split();
  EXPECT_NE(first.next(), second.next());
}

TEST(RngDeathTest, NothingIsBelowZero) { EXPECT_DEATH(static_cast<void>(Rng(1).below(0)), "internal error"); }

}  // namespace
}  // namespace ebb
