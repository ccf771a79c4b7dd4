// SpinLock in every order of its threads' steps.
#include "runtime/cache/spin_lock.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "interleaving/expectations.h"

namespace ebb::interleaving {
namespace {

struct Guarded {
  SpinLock lock;
  int count = 0;
};

Scenario count_in(int threads) {
  auto guarded = std::make_shared<Guarded>();
  Scenario scenario;
  for (int i = 0; i < threads; ++i) {
    scenario.threads.push_back([=] {
      const std::lock_guard lock(guarded->lock);
      ++guarded->count;
    });
  }
  scenario.end = [=] { require(guarded->count == threads, "one at a time"); };
  return scenario;
}

TEST(SpinLockOrders, LetInOneAtATime) {
  expect_right([] { return count_in(2); });
  expect_right([] { return count_in(3); });
}

TEST(SpinLockOrders, AreBothNeeded) {
  const auto weakenings = weaken_each([] { return count_in(2); });
  EXPECT_EQ(weakenings.size(), 2u);  // the exchange and the store
  EXPECT_EQ(failures(weakenings), 2u);
}

}  // namespace
}  // namespace ebb::interleaving
