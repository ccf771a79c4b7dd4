// What is made once and shared: shape information, layouts of tensors along dimensions, combined operators. From its
// second iteration on a program finds all of it made; and however many different ones it makes, few are kept.
#include <gtest/gtest.h>

#include "array/intern_cache.h"
#include "ebb/array.h"

namespace ebb {
namespace {

double iterate() {
  const Array x = arange(0, 48 * 32, 1, DType::kF32).reshape({48, 32});
  const Array scale = full({32}, 0.5, DType::kF32);
  const Array y = exp(x * 0.001) + scale;
  double total = sum(sum(y, {1})).item();
  total += mean(where(y > 1.5, y, -y)).item();
  return total + static_cast<double>(y.along({1}).count());
}

TEST(Interning, TheSecondIterationMakesNothing) {
  const double first = iterate();
  const ArrayStats before = array_stats();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(iterate(), first);
  const ArrayStats after = array_stats();
  EXPECT_EQ(after.shapes.misses, before.shapes.misses);
  EXPECT_EQ(after.programs.misses, before.programs.misses);
  EXPECT_EQ(after.tads.misses, before.tads.misses);
  EXPECT_GT(after.shapes.hits, before.shapes.hits);
  EXPECT_GT(after.programs.hits, before.programs.hits);
  EXPECT_GT(after.tads.hits, before.tads.hits);
}

TEST(Interning, KeepsFewHoweverManyThereAre) {
  const ArrayStats before = array_stats();
  const auto more = static_cast<std::int64_t>(before.shapes.capacity) + 100;
  for (std::int64_t size = 1; size <= more; ++size) EXPECT_EQ(empty({size}, DType::kU8).size(), size);
  const ArrayStats after = array_stats();
  EXPECT_LE(after.shapes.entries, after.shapes.capacity);
  EXPECT_GE(after.shapes.evictions - before.shapes.evictions, 100u);
}

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
