// The order of locks: what is taken out of order ends a process that checks.
#include "base/ordered_mutex.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ebb {
namespace {

class OrderedMutexTest : public testing::Test {
 protected:
  void SetUp() override {
#ifndef EBB_VALIDATE
    GTEST_SKIP() << "the order is not checked in this build";
#endif
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }

  OrderedMutex<Rank::kRuntimes> runtimes_;
  OrderedMutex<Rank::kAdopting> adopting_;
  OrderedMutex<Rank::kRuntime> runtime_, other_;
  OrderedMutex<Rank::kAdoptedMemory> memory_;
};

TEST_F(OrderedMutexTest, LaterOnesMayBeTakenAndGivenBackInAnyOrder) {
  adopting_.lock();
  runtime_.lock();
  memory_.lock();
  EXPECT_FALSE(LockOrder::none_held());
  adopting_.unlock();
  memory_.unlock();
  runtime_.unlock();
  EXPECT_TRUE(LockOrder::none_held());
}

TEST_F(OrderedMutexTest, AnEarlierOneEndsTheProcess) {
  const std::lock_guard lock(memory_);
  EXPECT_DEATH(runtime_.lock(), "internal error");
}

TEST_F(OrderedMutexTest, OneOfTheSameRankEndsTheProcess) {
  const std::lock_guard lock(runtime_);
  EXPECT_DEATH(other_.lock(), "internal error");
}

TEST_F(OrderedMutexTest, WhoForksTakesThoseOfAllRuntimes) {
  const std::lock_guard forking(runtimes_);
  const std::lock_guard one(runtime_);
  const std::lock_guard its_memory(memory_);
  const std::lock_guard another(other_);
}

TEST_F(OrderedMutexTest, AWaitGivesBackAndTakesAgain) {
  const std::lock_guard adopting(adopting_);
  std::unique_lock lock(runtime_);
  OrderedCondition condition;
  condition.wait_for(lock, std::chrono::milliseconds(1), [] { return LockOrder::none_held(); });
  EXPECT_FALSE(LockOrder::none_held());
}

}  // namespace
}  // namespace ebb
