// The cache of freed ranges: by hand, with random operations against a model, and by threads at once.
#include "runtime/cache/range_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "alloc/heap.h"
#include "base/rng.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __sanitizer_syscall_pre_impl_fork();
extern "C" void __sanitizer_syscall_post_impl_fork(long child);
#endif

namespace ebb {
namespace {

constexpr std::uint64_t kMiBytes = 1 << 20;
constexpr std::uint64_t kSpace = 1 << 30;

TEST(ThreadRanges, GivesBackTheNewestOfExactlyThisSize) {
  ThreadRanges ranges;
  ThreadRanges::Range range;
  EXPECT_FALSE(ranges.take(kMiBytes, range));
  ASSERT_TRUE(ranges.put({0, kMiBytes, 0}, kSpace));
  ASSERT_TRUE(ranges.put({8 * kMiBytes, kMiBytes, 0}, kSpace));
  ASSERT_TRUE(ranges.put({16 * kMiBytes, 2 * kMiBytes, 0}, kSpace));
  EXPECT_FALSE(ranges.take(kMiBytes + 64, range));
  ASSERT_TRUE(ranges.take(kMiBytes, range));
  EXPECT_EQ(range.offset, 8 * kMiBytes);
  ASSERT_TRUE(ranges.take(kMiBytes, range));
  EXPECT_EQ(range.offset, 0u);
  EXPECT_FALSE(ranges.take(kMiBytes, range));
  EXPECT_EQ(ranges.counters().hits, 2u);
  EXPECT_EQ(ranges.counters().held_bytes, 2 * kMiBytes);
  ranges.validate();
}

TEST(ThreadRanges, HoldsNoMoreThanItMay) {
  ThreadRanges ranges;
  EXPECT_TRUE(ranges.put({0, kMiBytes, 0}, 2 * kMiBytes));
  EXPECT_TRUE(ranges.put({kMiBytes, kMiBytes, 0}, 2 * kMiBytes));
  EXPECT_FALSE(ranges.put({2 * kMiBytes, kMiBytes, 0}, 2 * kMiBytes));
  EXPECT_EQ(ranges.counters().held_bytes, 2 * kMiBytes);
  ranges.validate();
}

TEST(ThreadRanges, AFullLogTakesNoMore) {
  ThreadRanges ranges;
  ThreadRanges::Range range;
  for (std::uint32_t i = 0; i < ThreadRanges::kLogMax / 2; ++i) {
    ASSERT_TRUE(ranges.put({0, kMiBytes, 0}, kSpace));
    ASSERT_TRUE(ranges.take(kMiBytes, range));
  }
  EXPECT_FALSE(ranges.put({0, kMiBytes, 0}, kSpace));
  ranges.cut();
  EXPECT_EQ(ranges.events().size(), ThreadRanges::kLogMax);
  ranges.settle(0);
  EXPECT_TRUE(ranges.put({0, kMiBytes, 0}, kSpace));
}

TEST(ThreadRanges, WhatNobodyAsksForGivesItsPlaceToWhatIsFreed) {
  ThreadRanges ranges;
  ASSERT_TRUE(ranges.put({0, 3 * kMiBytes, 0}, 4 * kMiBytes));
  ThreadRanges::Range range;
  std::uint64_t left = 0;
  for (std::uint32_t i = 0; i < 3 * ThreadRanges::kRangesMax; ++i) {
    ASSERT_TRUE(ranges.put({8 * kMiBytes, kMiBytes, 0}, 4 * kMiBytes));
    const bool fits = i % 2 == 1 && ranges.put({16 * kMiBytes, kMiBytes, 0}, 4 * kMiBytes);
    ASSERT_TRUE(ranges.take(kMiBytes, range));
    ASSERT_TRUE(!fits || ranges.take(kMiBytes, range));
    ranges.cut();
    for (const ThreadRanges::Event& event : ranges.events()) {
      if (event.kind() != ThreadRanges::Kind::kLeft) continue;
      EXPECT_EQ(event.offset(), 0u);
      left += 3 * kMiBytes;
      ranges.settle(3 * kMiBytes);
      ranges.cut();
    }
    ranges.settle(0);
    ranges.validate();
  }
  EXPECT_EQ(left, 3 * kMiBytes);
  EXPECT_EQ(ranges.counters().idle_bytes, 0u);
}

TEST(ThreadRanges, ForgetsSizesThatNobodyUses) {
  ThreadRanges ranges;
  ThreadRanges::Range range;
  std::uint64_t bytes = 64 * 1024;
  ASSERT_TRUE(ranges.put({0, 64, 0}, kSpace));
  for (; !ranges.crowded(); bytes += 64) {
    ASSERT_TRUE(ranges.put({bytes, bytes, 0}, kSpace));
    ASSERT_TRUE(ranges.take(bytes, range));
    ranges.cut();
    ranges.settle(0);
  }
  EXPECT_FALSE(ranges.put({bytes, bytes, 0}, kSpace));
  ranges.tidy();
  EXPECT_TRUE(ranges.put({bytes, bytes, 0}, kSpace));
  EXPECT_TRUE(ranges.take(64, range));
  ranges.validate();
}

// A core that keeps addresses only, and checks that what it is told could have been.
class Addresses {
 public:
  std::uint64_t allocate(std::uint64_t bytes) {
    const auto range = heap_.allocate(bytes, ++serial_);
    EBB_CHECK(range.has_value());
    return range->offset;
  }
  void deallocate(std::uint64_t offset) { EBB_CHECK(!heap_.free(offset).parked); }
  bool parked(std::uint64_t offset) const { return heap_.find(offset)->parked; }
  std::uint32_t turns(std::uint64_t offset) const { return heap_.find(offset)->turns; }
  void died(std::uint64_t offset) {
    heap_.park(offset);
    ++deaths;
  }
  void born(std::uint64_t offset) {
    heap_.unpark(offset, ++serial_);
    ++births;
  }
  void release(std::uint64_t offset) { EBB_CHECK(parked(offset)); }
  std::uint64_t bury(std::uint64_t offset) {
    const Heap::Range range = heap_.free(offset);
    EBB_CHECK(range.parked);
    return range.bytes;
  }
  const Heap& heap() const { return heap_; }

  std::uint64_t births = 0, deaths = 0;

 private:
  Heap heap_{0, kSpace};
  std::uint64_t serial_ = 0;
};

TEST(RangeCache, TellsTheDeathsAndBirthsInOrder) {
  RangeCache cache(kSpace);
  cache.limit(kSpace);
  Addresses core;
  cache.open();
  cache.join();
  const std::uint64_t first = core.allocate(kMiBytes);
  cache.know(first, kMiBytes);
  ASSERT_TRUE(cache.put(first));
  EXPECT_FALSE(cache.put(first)) << "freed twice: the caller's core finds out";
  std::uint64_t offset = 0;
  ASSERT_TRUE(cache.take(kMiBytes, offset));
  EXPECT_EQ(offset, first);
  EXPECT_FALSE(core.parked(first));
  ASSERT_TRUE(cache.put(first));
  cache.tell(core);
  EXPECT_TRUE(core.parked(first));
  EXPECT_EQ(core.births, 1u);
  EXPECT_EQ(core.deaths, 2u);
  EXPECT_EQ(cache.counters().idle_bytes, kMiBytes);
  EXPECT_EQ(cache.claim_all([](std::uint64_t, std::uint64_t) {}), 1u);
  EXPECT_FALSE(cache.is_open());
  EXPECT_FALSE(cache.take(kMiBytes, offset));
  cache.tell(core);
  EXPECT_EQ(core.heap().live_bytes(), 0u);
  EXPECT_EQ(cache.counters().idle_bytes, 0u);
}

TEST(RangeCache, WhatDiesInAnotherThreadWasBornBefore) {
  RangeCache cache(kSpace);
  cache.limit(kSpace);
  Addresses core;
  cache.open();
  // The thread that frees is known before the one that allocates, so that its log is read first.
  std::mutex turn;
  std::thread freer;
  std::uint64_t offset = 0;
  std::atomic<int> stage{0};
  freer = std::thread([&] {
    cache.join();
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    EBB_CHECK(cache.put(offset));
    stage = 3;
    while (stage != 4) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  cache.join();
  const std::uint64_t first = core.allocate(kMiBytes);
  cache.know(first, kMiBytes);
  ASSERT_TRUE(cache.put(first));
  ASSERT_TRUE(cache.take(kMiBytes, offset));
  stage = 2;
  while (stage != 3) std::this_thread::yield();
  cache.tell(core);
  EXPECT_EQ(core.births, 1u);
  EXPECT_EQ(core.deaths, 2u);
  EXPECT_TRUE(core.parked(first));
  stage = 4;
  freer.join();
  // What it left behind is the next thread's.
  std::thread([&] {
    cache.join();
    std::uint64_t again = 0;
    EBB_CHECK(cache.take(kMiBytes, again));
    EBB_CHECK_EQ(again, first);
  }).join();
}

TEST(RangeCache, HoldsNoMoreThanItMayInAllThreadsTogether) {
  RangeCache cache(kSpace);
  cache.limit(96 * kMiBytes);
  Addresses core;
  cache.open();
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<std::uint64_t> mine;
      for (int i = 0; i < 40; ++i) {
        const std::lock_guard lock(mutex);
        cache.join();
        mine.push_back(core.allocate(kMiBytes));
        cache.know(mine.back(), kMiBytes);
      }
      for (const std::uint64_t offset : mine) {
        if (cache.put(offset)) continue;
        const std::lock_guard lock(mutex);
        cache.tell(core);
        core.deallocate(offset);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache.counters().held_bytes, 0u);
  EXPECT_LE(cache.counters().held_bytes, 96 * kMiBytes);
  cache.validate();
}

// Threads allocate, hand over and free, now and then through the core; another one gives everything up at times. Nobody
// may ever hold what somebody else holds.
TEST(RangeCache, NeverHandsOutWhatIsInUse) {
  constexpr int kThreads = 4, kRounds = 4000;
  constexpr std::uint64_t kSizes = 6;
  RangeCache cache(kSpace);
  cache.limit(64 * kMiBytes);
  Addresses core;
  std::mutex mutex;
  std::vector<std::atomic<std::uint32_t>> owner(kSpace / RangeTable::kGranule);
  cache.open();

  const auto allocate = [&](std::uint64_t bytes, std::uint32_t who) {
    std::uint64_t offset = 0;
    if (!cache.take(bytes, offset)) {
      const std::lock_guard lock(mutex);
      cache.tell(core);
      cache.join();
      offset = core.allocate(bytes);
      cache.know(offset, bytes);
    }
    for (std::uint64_t at = offset; at < offset + bytes; at += RangeTable::kGranule) {
      EBB_CHECK_EQ(owner[at / RangeTable::kGranule].exchange(who), 0u);
    }
    return offset;
  };
  const auto deallocate = [&](std::uint64_t offset, std::uint64_t bytes, std::uint32_t who) {
    for (std::uint64_t at = offset; at < offset + bytes; at += RangeTable::kGranule) {
      EBB_CHECK_EQ(owner[at / RangeTable::kGranule].exchange(0), who);
    }
    if (cache.put(offset)) return;
    const std::lock_guard lock(mutex);
    cache.tell(core);
    cache.join();
    cache.forget(offset);
    core.deallocate(offset);
  };
  std::vector<std::thread> threads;
  for (std::uint32_t who = 1; who <= kThreads; ++who) {
    threads.emplace_back([&, who] {
      Rng rng(who);
      std::vector<std::pair<std::uint64_t, std::uint64_t>> mine;
      for (int round = 0; round < kRounds; ++round) {
        if (mine.size() < 8 && rng.chance(1, 2)) {
          const std::uint64_t bytes = RangeTable::kGranule * rng.between(1, kSizes);
          mine.emplace_back(allocate(bytes, who), bytes);
        } else if (!mine.empty()) {
          const auto [offset, bytes] = mine.back();
          mine.pop_back();
          deallocate(offset, bytes, who);
        }
        const bool tells = rng.chance(1, 64), claims = who == 1 && rng.chance(1, 256);
        if (!tells && !claims) continue;
        const std::lock_guard lock(mutex);
        if (tells) cache.tell(core);
        if (!claims) continue;
        cache.claim_all([](std::uint64_t, std::uint64_t) {});
        cache.open();
      }
      for (const auto& [offset, bytes] : mine) deallocate(offset, bytes, who);
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache.tell(core);
  cache.validate();
  EXPECT_GT(cache.counters().hits, 0u);
  EXPECT_EQ(core.heap().live_bytes(), cache.counters().idle_bytes);
  cache.claim_all([](std::uint64_t, std::uint64_t) {});
  cache.tell(core);
  EXPECT_EQ(core.heap().live_bytes(), 0u);
}

// Those of runtimes come before that of a cache.
pid_t fork_without_handlers() {
#if defined(__SANITIZE_THREAD__)
  __sanitizer_syscall_pre_impl_fork();  // takes the sanitizer's own locks, which a child would inherit
  const pid_t child = ::_Fork();
  __sanitizer_syscall_post_impl_fork(child);
  return child;
#else
  return ::_Fork();
#endif
}

TEST(RangeCache, AForkedChildInheritsNoLockOfAThreadThatItLacks) {
  RangeCache cache(kSpace);
  cache.limit(kSpace);
  cache.open();
  std::atomic<bool> joined{false}, ended{false};
  std::thread taker([&] {
    cache.join();
    joined = true;
    std::uint64_t offset = 0;
    while (!ended) cache.take(kMiBytes, offset);
  });
  while (!joined) std::this_thread::yield();
#if defined(__SANITIZE_THREAD__)
  constexpr int kForks = 10;  // of a second each
#else
  constexpr int kForks = 100;
#endif
  for (int i = 0; i < kForks && !testing::Test::HasFailure(); ++i) {
    cache.before_fork();
    const pid_t child = fork_without_handlers();
    cache.after_fork();
    if (child == 0) {
      ::alarm(10);
      static_cast<void>(cache.counters());
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ended = true;
  taker.join();
}

}  // namespace
}  // namespace ebb
