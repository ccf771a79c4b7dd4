// Index: all bits zero is none, and kinds of index do not mix.
#include "base/index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>

namespace ebb {
namespace {

static_assert(!std::is_convertible_v<BlockIndex, FrameIndex>);
static_assert(!std::is_convertible_v<std::uint32_t, BlockIndex>);
static_assert(!std::is_constructible_v<FrameIndex, BlockIndex>);
static_assert(std::is_trivially_copyable_v<BlockIndex>);

TEST(Index, ZeroedMemoryIsNone) {
  BlockIndex index(7);
  std::memset(static_cast<void*>(&index), 0, sizeof index);
  EXPECT_EQ(index, BlockIndex::none());
  EXPECT_FALSE(index.valid());
  EXPECT_FALSE(BlockIndex().valid());
}

TEST(Index, KeepsItsValue) {
  EXPECT_TRUE(BlockIndex(0).valid());
  EXPECT_EQ(BlockIndex(0).value(), 0u);
  EXPECT_EQ(BlockIndex(41).next(), BlockIndex(42));
  EXPECT_LT(BlockIndex(1), BlockIndex(2));
  EXPECT_LT(BlockIndex::none(), BlockIndex(0));
}

TEST(Index, ARangeEndsBehindItsLast) {
  const BlockRange range{BlockIndex(3), 4};
  std::uint32_t count = 0;
  for (BlockIndex i = range.first; i != range.end(); i = i.next()) ++count;
  EXPECT_EQ(count, 4u);
  EXPECT_EQ((BlockRange{BlockIndex(3), 0}).end(), BlockIndex(3));
}

}  // namespace
}  // namespace ebb
