// ExtentPool: shared places on flash, and places that are never used again.
#include "alloc/extent_pool.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(ExtentPool, GrowsInStepsAndHandsOutTheLowestFirst) {
  ExtentPool pool(8);
  EXPECT_FALSE(pool.take().valid());
  pool.set_capacity(2);
  EXPECT_EQ(pool.take(), ExtentIndex(0));
  EXPECT_EQ(pool.take(), ExtentIndex(1));
  EXPECT_FALSE(pool.take().valid());
  pool.set_capacity(4);
  EXPECT_EQ(pool.free(), 2u);
  EXPECT_EQ(pool.take(), ExtentIndex(2));
  pool.set_capacity(1);  // never shrinks
  EXPECT_EQ(pool.capacity(), 4u);
  EXPECT_EQ(pool.used(), 3u);
  pool.validate();
}

TEST(ExtentPool, IsFreeWhenTheLastHasReleasedIt) {
  ExtentPool pool(2);
  pool.set_capacity(2);
  const ExtentIndex extent = pool.take();
  pool.retain(extent);
  EXPECT_TRUE(pool.shared(extent));
  pool.release(extent);
  EXPECT_FALSE(pool.shared(extent));
  EXPECT_EQ(pool.used(), 1u);
  pool.release(extent);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.take(), extent);
  pool.validate();
}

TEST(ExtentPool, NeverHandsOutARetiredOneAgain) {
  ExtentPool pool(2);
  pool.set_capacity(2);
  const ExtentIndex bad = pool.take();
  pool.retire(bad);
  pool.release(bad);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_NE(pool.take(), bad);
  EXPECT_FALSE(pool.take().valid());
  pool.validate();
}

TEST(ExtentPool, KeepsTheDigest) {
  ExtentPool pool(1);
  pool.set_capacity(1);
  const ExtentIndex extent = pool.take();
  pool.set_digest(extent, {1, 2});
  EXPECT_EQ(pool.digest_of(extent), (Digest{1, 2}));
}

TEST(ExtentPoolDeathTest, RefusesToReleaseTwice) {
  ExtentPool pool(1);
  pool.set_capacity(1);
  const ExtentIndex extent = pool.take();
  pool.release(extent);
  EXPECT_DEATH(pool.release(extent), "references");
  EXPECT_DEATH(pool.retain(extent), "references");
  EXPECT_DEATH(pool.set_capacity(2), "limit_");
}

}  // namespace
}  // namespace ebb
