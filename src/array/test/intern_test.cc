// The cache in which shapes, layouts and combined operators are made once; what programs find in it: combine_test.cc.
#include <gtest/gtest.h>

#include "array/shape/intern_cache.h"

namespace ebb {
namespace {

TEST(InternCache, TheOneUsedLongestAgoLeavesAndItsHoldersKeepIt) {
  array::InternCache<int> cache(2);
  const auto one = cache.get({1}, [] { return 1; });
  const auto two = cache.get({2}, [] { return 2; });
  EXPECT_EQ(cache.get({1}, [] { return 0; }), one);
  cache.get({3}, [] { return 3; });  // in the place of 2
  EXPECT_EQ(cache.get({1}, [] { return 0; }), one);
  EXPECT_EQ(*two, 2);
  EXPECT_EQ(*cache.get({2}, [] { return 4; }), 4);
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.hits, 2u);
  EXPECT_EQ(stats.misses, 4u);
  EXPECT_EQ(stats.evictions, 2u);
  EXPECT_EQ(stats.entries, 2u);
}

}  // namespace
}  // namespace ebb
