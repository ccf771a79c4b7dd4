// The cache of freed ranges in a real runtime: what a program gets from it, and what it must never notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/test/in_a_child.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kBudget = 24 * kMiB;

class ManagedCache : public testing::Test {
 protected:
  void SetUp() override {
    try {
      runtime_ = open("window");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static std::shared_ptr<Runtime> open(const char* policy, std::uint64_t budget = kBudget) {
    Options options;
    options.memory = budget;
    options.flash_bytes = 256 * kMiB;
    options.block_bytes = kBlock;
    options.policy = policy;
    return Runtime::open(options);
  }
  static void fill(void* data, std::uint64_t bytes, std::uint64_t value) {
    auto* const words = static_cast<std::uint64_t*>(data);
    for (std::uint64_t i = 0; i < bytes / sizeof *words; i += 512) words[i] = value + i;
  }
  static void check(const void* data, std::uint64_t bytes, std::uint64_t value) {
    const auto* const words = static_cast<const std::uint64_t*>(data);
    for (std::uint64_t i = 0; i < bytes / sizeof *words; i += 512) EBB_CHECK_EQ(words[i], value + i);
  }

  std::shared_ptr<Runtime> runtime_;
};

TEST_F(ManagedCache, WhatIsFreedIsFoundAgain) {
  void* const first = runtime_->allocate(kMiB);
  fill(first, kMiB, 1);
  runtime_->deallocate(first);
  Stats stats = runtime_->stats();
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.cached_bytes, kMiB);
  EXPECT_EQ(runtime_->allocate(kMiB), first);
  stats = runtime_->stats();
  EXPECT_EQ(stats.cache_hits, 1u);
  EXPECT_EQ(stats.allocations, 2u);
  EXPECT_EQ(stats.reused, 1u);
  EXPECT_EQ(stats.live_bytes, kMiB);
  EXPECT_EQ(stats.peak_live_bytes, kMiB);
  runtime_->deallocate(first);
}

TEST_F(ManagedCache, ASteadyLoopHits) {
  const auto iterate = [&] {
    std::vector<void*> all;
    for (std::uint64_t i = 0; i < 20; ++i) all.push_back(runtime_->allocate(kBlock * (1 + i % 5)));
    const Access access{all[0], kBlock, all[0], 0, true, false};
    runtime_->retire(runtime_->announce(1, {&access, 1}));
    for (void* const data : all) runtime_->deallocate(data);
    runtime_->step();
  };
  iterate();
  const Stats before = runtime_->stats();
  for (int i = 0; i < 50; ++i) iterate();
  const Stats after = runtime_->stats();
  EXPECT_EQ(after.cache_hits - before.cache_hits, 1000u);
  EXPECT_EQ(after.cache_misses, before.cache_misses);
  EXPECT_EQ(after.launches - before.launches, 50u);
}

// A cache that grows with each token frees sizes that nobody asks for again.
TEST_F(ManagedCache, SizesThatNeverComeBackDoNotFillMemory) {
  const auto runtime = open("window", kGiB);
  void* last = nullptr;
  for (std::uint64_t i = 0; i < 400; ++i) {
    void* const next = runtime->allocate(kMiB + i * 4 * kKiB);
    fill(next, kMiB, i);
    runtime->deallocate(last);
    last = next;
  }
  const Stats stats = runtime->stats();
  EXPECT_GT(stats.cached_bytes, 32 * kMiB);
  EXPECT_LT(stats.peak_resident_bytes, 96 * kMiB);  // of 700 that were allocated
  runtime->deallocate(last);
}

// Dead content costs no write: the frames of what is cached come before those of what is in use.
TEST_F(ManagedCache, WhatIsCachedGivesWayUnwritten) {
  std::vector<void*> cached;
  for (int i = 0; i < 10; ++i) {
    cached.push_back(runtime_->allocate(kMiB));
    fill(cached.back(), kMiB, 7);
  }
  for (void* const data : cached) runtime_->deallocate(data);
  EXPECT_EQ(runtime_->stats().cached_bytes, 10 * kMiB);
  const std::uint64_t bytes = 18 * kMiB;
  void* const large = runtime_->allocate(bytes);
  fill(large, bytes, 9);
  check(large, bytes, 9);
  const Stats stats = runtime_->stats();
  EXPECT_EQ(stats.cache_trims, 10u);
  EXPECT_EQ(stats.cached_bytes, 0u);
  EXPECT_EQ(stats.evicted_bytes + stats.clean_bytes, 0u);
  EXPECT_EQ(stats.live_bytes, bytes);
  runtime_->deallocate(large);
}

TEST_F(ManagedCache, ARefusalGivesUpWhatIsCachedFirst) {
  // All of memory and flash: what is cached has to go for it.
  void* const small = runtime_->allocate(8 * kMiB);
  runtime_->deallocate(small);
  EXPECT_EQ(runtime_->stats().cached_bytes, 8 * kMiB);
  void* const all = runtime_->allocate(273 * kMiB);
  EXPECT_EQ(runtime_->stats().cached_bytes, 0u);
  runtime_->deallocate(all);
  EXPECT_THROW(runtime_->allocate(600 * kMiB), Error);
}

// The plan of an iteration is made of births, launches and deaths: from the cache they must come in the same order.
TEST_F(ManagedCache, AnIterationIsRecognized) {
  const auto runtime = open("foresight");
  void* const weights = runtime->allocate(kMiB);
  for (int step = 0; step < 8; ++step) {
    std::vector<void*> activations;
    for (std::uint64_t layer = 0; layer < 12; ++layer) {
      const Access read{weights, kMiB, weights, 0, false, false};
      const std::uint64_t ticket = runtime->announce(10 + layer, {&read, 1});
      activations.push_back(runtime->allocate(kBlock * (1 + layer % 3)));
      fill(activations.back(), kBlock, layer);
      runtime->retire(ticket);
    }
    for (std::uint64_t layer = 12; layer-- > 0;) {
      const Access read{activations[layer], kBlock, activations[layer], 0, false, false};
      runtime->retire(runtime->announce(50 + layer, {&read, 1}));
      check(activations[layer], kBlock, layer);
      runtime->deallocate(activations[layer]);
    }
    runtime->step();
  }
  const Stats stats = runtime->stats();
  EXPECT_EQ(stats.deviations, 0u);
  EXPECT_GE(stats.cache_hits, 7u * 12 - 12);
  runtime->deallocate(weights);
}

TEST_F(ManagedCache, AForkedChildSeesWhatItsParentHas) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
#endif
  void* const kept = runtime_->allocate(kMiB);
  fill(kept, kMiB, 3);
  runtime_->deallocate(runtime_->allocate(2 * kMiB));
  EXPECT_EQ(runtime_->stats().cached_bytes, 2 * kMiB);
  expect_end(in_a_child(60, [&] {
    check(kept, kMiB, 3);
    void* const own = runtime_->allocate(2 * kMiB);
    fill(own, 2 * kMiB, 4);
    check(own, 2 * kMiB, 4);
    runtime_->deallocate(own);
    runtime_->deallocate(kept);
    return 0;
  }));
  EXPECT_EQ(runtime_->stats().cached_bytes, 0u);
  check(kept, kMiB, 3);
  runtime_->deallocate(kept);
  EXPECT_EQ(runtime_->stats().live_bytes, 0u);
}

// Threads that together need more than there is at times, and less at others: whatever is cached, given up and cached
// again, everyone reads what it wrote.
TEST_F(ManagedCache, ThreadsKeepWhatIsTheirs) {
  for (const char* policy : {"on_demand", "window", "foresight"}) {
    const auto runtime = open(policy);
    std::vector<std::thread> threads;
    for (std::uint64_t who = 1; who <= 4; ++who) {
      threads.emplace_back([&, who] {
        struct Mine {
          void* data;
          std::uint64_t bytes, value;
        };
        Rng rng(who);
        std::vector<Mine> mine;
        for (std::uint64_t round = 0; round < 400; ++round) {
          // Eight times 2 MiB in four threads: more than the budget; in between hardly anything.
          const std::size_t most = round / 100 % 2 == 0 ? 2 : 8;
          while (mine.size() >= most) {
            check(mine.back().data, mine.back().bytes, mine.back().value);
            runtime->deallocate(mine.back().data);
            mine.pop_back();
          }
          const std::uint64_t bytes = kBlock * (rng.chance(1, 4) ? rng.between(1, 32) : 8);
          mine.push_back({runtime->allocate(bytes), bytes, who * 1000003 + round});
          fill(mine.back().data, bytes, mine.back().value);
          const Mine& any = mine[rng.below(mine.size())];
          const Access access{any.data, any.bytes, any.data, 0, false, false};
          const std::uint64_t ticket = runtime->announce(who, {&access, 1});
          check(any.data, any.bytes, any.value);
          runtime->retire(ticket);
        }
        for (const Mine& each : mine) {
          check(each.data, each.bytes, each.value);
          runtime->deallocate(each.data);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const Stats stats = runtime->stats();
    EXPECT_EQ(stats.live_bytes, 0u) << policy;
    EXPECT_GT(stats.cache_hits, 0u) << policy;
    EXPECT_EQ(stats.allocations, 1600u) << policy;
    EXPECT_EQ(stats.cache_hits + stats.cache_misses, 1600u) << policy;
  }
}

}  // namespace
}  // namespace ebb
