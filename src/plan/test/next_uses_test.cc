// When a block is needed that several allocations share.
#include "plan/follow/next_uses.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kNever = 1000;

BlockRange blocks(std::uint32_t first, std::uint32_t count) { return {BlockIndex(first), count}; }

// One of blocks 0 to 2, and one that begins in the last of them.
NextUses two_neighbours() {
  NextUses uses(kNever);
  uses.cover(blocks(0, 6));
  uses.add(1, blocks(0, 3));
  uses.add(2, blocks(2, 3));
  uses.see(1, blocks(0, 3), 10, 0);
  uses.see(2, blocks(2, 3), 20, 0);
  return uses;
}

TEST(NextUses, ASharedBlockIsNeededByTheFirstOfThem) {
  const NextUses uses = two_neighbours();
  EXPECT_EQ(uses.of(BlockIndex(1)), 10u);
  EXPECT_EQ(uses.of(BlockIndex(2)), 10u);
  EXPECT_EQ(uses.of(BlockIndex(3)), 20u);
  EXPECT_EQ(uses.of(BlockIndex(5)), kNever);
}

TEST(NextUses, WhenOneHasBeenUsedTheOtherIsStillToCome) {
  NextUses uses = two_neighbours();
  uses.see(1, blocks(0, 3), 500, 10);
  EXPECT_EQ(uses.of(BlockIndex(1)), 500u);
  EXPECT_EQ(uses.of(BlockIndex(2)), 20u);
  uses.see(2, blocks(2, 3), kNever, 20);
  EXPECT_EQ(uses.of(BlockIndex(2)), 500u);
}

TEST(NextUses, WhenOneHasBeenFreedTheOtherIsStillToCome) {
  NextUses uses = two_neighbours();
  uses.remove(1, blocks(0, 3), 10);
  EXPECT_EQ(uses.of(BlockIndex(2)), 20u);
}

TEST(NextUses, AUseThatDidNotComeTellsNothing) {
  NextUses uses = two_neighbours();
  uses.see(2, blocks(2, 3), 60, 15);  // the first was expected at 10
  EXPECT_EQ(uses.of(BlockIndex(2)), 60u);
}

TEST(NextUses, AnUnforeseenUseCountsIfItIsSooner) {
  NextUses uses = two_neighbours();
  uses.expect(BlockIndex(3), 15, 5);
  uses.expect(BlockIndex(1), 15, 5);
  EXPECT_EQ(uses.of(BlockIndex(3)), 15u);
  EXPECT_EQ(uses.of(BlockIndex(1)), 10u);
  uses.forget();
  EXPECT_EQ(uses.of(BlockIndex(1)), kNever);
}

}  // namespace
}  // namespace ebb
