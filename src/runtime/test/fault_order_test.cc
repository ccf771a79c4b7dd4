// Only long waits for scattered touches are worth a word.
#include "runtime/waits/fault_order.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ebb {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// One touch a millisecond, of which the program waits for `waited` in a hundred, and `scattered` in a hundred are.
bool told(std::uint64_t waited, std::uint64_t scattered, std::uint64_t touches) {
  FaultOrder order;
  bool found = false;
  for (std::uint64_t i = 1; i <= touches; ++i) {
    found = order.note(i, i * scattered / 100, i * kMs, i * kMs * waited / 100) || found;
  }
  return found;
}

TEST(FaultOrder, ToldWhereScatteredTouchesAreWaitedForLongEnough) {
  EXPECT_TRUE(told(90, 75, 10'500));
  EXPECT_FALSE(told(90, 75, 9'500)) << "not yet long";
  EXPECT_FALSE(told(40, 75, 30'000)) << "it mostly computes";
  EXPECT_FALSE(told(90, 10, 30'000)) << "they are in order";
}

TEST(FaultOrder, NotToldOfAFewTouchesInALongTime) {
  FaultOrder order;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    EXPECT_FALSE(order.note(i, i, i * 1000 * kMs, i * 900 * kMs));
  }
}

}  // namespace
}  // namespace ebb
