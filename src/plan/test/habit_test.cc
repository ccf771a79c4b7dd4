// Habit: what is used often is worth more than what was used last, until it no longer is.
#include "plan/planner/habit.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr BlockRange block(std::uint32_t index) { return {BlockIndex(index), 1}; }

TEST(Habit, OftenIsWorthMoreThanLately) {
  Habit habit;
  EXPECT_EQ(habit.worth(BlockIndex(3)), 0u);
  for (std::uint64_t iteration = 0; iteration < 8; iteration += 2) habit.used(block(3), iteration);
  habit.used(block(4), 8);
  habit.used(block(5), 9);
  EXPECT_GT(habit.worth(BlockIndex(3)), habit.worth(BlockIndex(5)));
  EXPECT_GT(habit.worth(BlockIndex(5)), habit.worth(BlockIndex(4)));
  EXPECT_GT(habit.worth(BlockIndex(4)), 0u);
}

TEST(Habit, IsForgotten) {
  Habit habit;
  for (std::uint64_t iteration = 0; iteration < 8; ++iteration) habit.used(block(3), iteration);
  habit.used(block(4), 7 + 2 * static_cast<std::uint64_t>(Habit::kHalfLife));
  EXPECT_GT(habit.worth(BlockIndex(3)), habit.worth(BlockIndex(4)));
  habit.used(block(4), 7 + 4 * static_cast<std::uint64_t>(Habit::kHalfLife));
  EXPECT_GT(habit.worth(BlockIndex(4)), habit.worth(BlockIndex(3)));
}

TEST(Habit, StaysBelowWhatIsPlanned) {
  Habit habit;
  habit.used({BlockIndex(0), 2}, ~std::uint64_t{0});
  EXPECT_LT(habit.worth(BlockIndex(1)), std::uint64_t{1} << 48);
}

}  // namespace
}  // namespace ebb
