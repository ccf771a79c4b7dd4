// Touches in runs, side by side and by lot are told apart, and only long waits for the last are worth a word.
#include "runtime/waits/fault_order.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/rng.h"

namespace ebb {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

TEST(FaultOrder, ARunIsOneScatteredTouch) {
  FaultOrder order;
  for (std::uint32_t i = 0; i < 1000; ++i) order.note(BlockIndex(7 + i), 0, 0);
  EXPECT_EQ(order.scattered(), 1u);
}

TEST(FaultOrder, RunsSideBySideAreRuns) {
  FaultOrder order;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (std::uint32_t run = 0; run < FaultOrder::kRuns; ++run) order.note(BlockIndex(run * 100'000 + i), 0, 0);
  }
  EXPECT_EQ(order.scattered(), FaultOrder::kRuns);
}

TEST(FaultOrder, WhatIsReadAheadOfARunIsPartOfIt) {
  FaultOrder order;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (std::uint32_t thread = 0; thread < 3; ++thread) order.note(BlockIndex(thread * 100'000 + 3 * i), 0, 0);
  }
  EXPECT_EQ(order.scattered(), 3u);
}

TEST(FaultOrder, TouchesByLotAreScattered) {
  FaultOrder order;
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) order.note(BlockIndex(static_cast<std::uint32_t>(rng.below(150))), 0, 0);
  EXPECT_GT(order.scattered(), 750u);
}

// One touch a millisecond, of which the program waits for `waited` in a hundred.
bool told(std::uint64_t waited, std::uint32_t blocks, std::uint32_t touches) {
  FaultOrder order;
  Rng rng(2);
  bool found = false;
  for (std::uint64_t i = 1; i <= touches; ++i) {
    const std::uint32_t block =
        blocks > 0 ? static_cast<std::uint32_t>(rng.below(blocks)) : static_cast<std::uint32_t>(i);
    found = order.note(BlockIndex(block), i * kMs, i * kMs * waited / 100) || found;
  }
  return found;
}

TEST(FaultOrder, ToldWhereScatteredTouchesAreWaitedForLongEnough) {
  EXPECT_TRUE(told(90, 1000, 10'500));
  EXPECT_FALSE(told(90, 1000, 9'500)) << "not yet long";
  EXPECT_FALSE(told(40, 1000, 30'000)) << "it mostly computes";
  EXPECT_FALSE(told(90, 0, 30'000)) << "they are in order";
}

TEST(FaultOrder, NotToldOfAFewTouchesInALongTime) {
  FaultOrder order;
  Rng rng(3);
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    EXPECT_FALSE(order.note(BlockIndex(static_cast<std::uint32_t>(rng.below(1000))), i * 1000 * kMs, i * 900 * kMs));
  }
}

}  // namespace
}  // namespace ebb
