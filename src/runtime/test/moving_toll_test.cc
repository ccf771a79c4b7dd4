// What moving takes from launches, by how many processors these leave.
#include "runtime/pace/moving_toll.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// An iteration of a second without waits; the mover had a tenth of a second for a thousand blocks.
double toll(std::uint32_t processors, std::uint64_t program) {
  MovingToll toll(processors, {});
  toll.observe({kSecond, 0, program + kSecond / 10, kSecond / 10, 1000});
  return toll.each_ns();
}

TEST(MovingToll, IsTheProcessorTimeOfABlockWhereAllAreBusy) {
  EXPECT_DOUBLE_EQ(toll(2, 2 * kSecond), 100'000);
  EXPECT_DOUBLE_EQ(toll(2, 3 * kSecond / 2), 50'000);
}

TEST(MovingToll, IsNothingWhereAProcessorIsIdle) {
  EXPECT_EQ(toll(2, kSecond), 0);
  EXPECT_EQ(toll(8, 4 * kSecond), 0);
}

TEST(MovingToll, WaitsDoNotCount) {
  MovingToll toll(2, {});
  toll.observe({kSecond, kSecond / 2, kSecond + kSecond / 10, kSecond / 10, 1000});
  EXPECT_DOUBLE_EQ(toll.each_ns(), 100'000);
}

TEST(MovingToll, StaysWhereLittleWasMoved) {
  MovingToll toll(1, {});
  toll.observe({kSecond, 0, 2 * kSecond, kSecond, 1000});
  const double before = toll.each_ns();
  EXPECT_GT(before, 0);
  toll.observe({2 * kSecond, 0, 3 * kSecond, kSecond, 1001});
  EXPECT_EQ(toll.each_ns(), before);
}

}  // namespace
}  // namespace ebb
