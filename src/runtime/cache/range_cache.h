// RangeCache: freed ranges kept for the next request of their size, frames and all, for the thread that freed them. A
// hit takes no lock that another thread holds for long, and tells the core later: every thread writes a log, and the
// core is told of what is in them, in an order that could have been, before it is told anything else
// (docs/design/0012).
//
// The cache is open while everything is in memory. The first time that the engine would have to send out a block for
// want of frames, everything held is claimed, before any block in use, and the cache is closed until a good while after
// all is back. So a held range always has its frames, none is ever written to flash, and a program that is larger than
// its memory runs as without a cache.
//
// Threads: take() and put() by any; all else under the runtime's lock; claim_all() also by the fault thread, as it
// never allocates. Invariant: what is held or claimed is live to the engine and parked, or about to be parked, in the
// heap.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "runtime/cache/range_table.h"
#include "runtime/cache/thread_ranges.h"

namespace ebb {

class RangeCache {
 public:
  explicit RangeCache(std::uint64_t space_bytes);
  RangeCache(const RangeCache&) = delete;
  RangeCache& operator=(const RangeCache&) = delete;

  // A held range of `bytes`, rounded up as the heap does it.
  bool take(std::uint64_t bytes, std::uint64_t& offset);
  // False: the caller has to give it back itself.
  bool put(std::uint64_t offset);

  // Ranges that the heap has handed out, and will have back.
  void know(std::uint64_t offset, std::uint64_t bytes) {
    if (table_.there() && bytes >= RangeTable::kGranule) table_.set({offset, bytes, 0});
  }
  void forget(std::uint64_t offset) {
    if (table_.there() && table_.get(offset).bytes > 0) table_.clear(offset);
  }
  // Makes the calling thread one that has a cache, if it may.
  void join();

  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  void open() { open_.store(table_.there(), std::memory_order_relaxed); }
  // How much may be held, of all threads together. What is held already stays.
  void limit(std::uint64_t held_bytes_max) { held_bytes_max_.store(held_bytes_max, std::memory_order_relaxed); }
  // Closes, and gives up all that is held: release(offset, bytes) for each. Returns how many. From when this returns
  // nothing is taken or put.
  template <typename Release>
  std::uint64_t claim_all(Release&& release);
  // Tells `core` (core/allocations.h) of what has happened since the last time: died(offset), born(offset), and
  // bury(offset) for what is held no longer, after release(offset) if it was not claimed; turns(offset) is how often it
  // has died and been born. bury() returns the bytes.
  template <typename Allocations>
  void tell(Allocations& core);

  // Around fork(): no thread is then in the middle of something that the child would wait for.
  void before_fork();
  void after_fork();

  struct Counters {
    std::uint64_t hits = 0, held_bytes = 0, idle_bytes = 0;
  };
  Counters counters();
  // Of the tables, all threads together.
  std::uint64_t table_bytes() const;
  void validate();

 private:
  static constexpr std::uint32_t kThreadsMax = 32;  // more do without
  static_assert(kThreadsMax * ThreadRanges::kLogMax <= RangeTable::kTurns);

  struct Thread {
    ThreadRanges ranges;
    std::atomic<bool> taken{true};
    std::uint64_t granted_bytes = 0;  // of held_bytes_max_; under ranges.lock
  };
  // Shared with the threads, which may end after the cache.
  struct Threads {
    std::array<std::unique_ptr<Thread>, kThreadsMax> all;
    std::atomic<std::uint32_t> count{0};
  };
  struct ThreadEnd;

  Thread* mine() const;
  bool grant(Thread& thread, std::uint64_t bytes);
  bool has_news() const;
  template <typename Allocations>
  bool tell_next(Allocations& core, ThreadRanges& ranges, std::uint32_t& at, std::uint64_t& buried);

  const std::uint64_t id_;
  RangeTable table_;
  std::shared_ptr<Threads> threads_;
  std::atomic<bool> open_{false};
  std::atomic<std::uint64_t> held_bytes_max_{0};
  std::atomic<std::uint64_t> granted_bytes_{0};
};

template <typename Release>
std::uint64_t RangeCache::claim_all(Release&& release) {
  open_.store(false, std::memory_order_relaxed);  // whoever takes a lock after this thread sees it
  std::uint64_t claimed = 0;
  for (std::uint32_t i = 0; i < threads_->count; ++i) {
    Thread& thread = *threads_->all[i];
    const std::lock_guard lock(thread.ranges.lock);
    thread.ranges.claim_all([&](std::uint64_t offset, std::uint64_t bytes) {
      ++claimed;
      release(offset, bytes);
    });
    granted_bytes_ -= thread.granted_bytes;
    thread.granted_bytes = 0;
  }
  return claimed;
}

template <typename Allocations>
void RangeCache::tell(Allocations& core) {
  if (!has_news()) return;
  const std::uint32_t count = threads_->count;
  // All at the same moment: what one thread has done may rest on what another had done before.
  for (std::uint32_t i = 0; i < count; ++i) threads_->all[i]->ranges.lock.lock();
  for (std::uint32_t i = 0; i < count; ++i) threads_->all[i]->ranges.cut();
  for (std::uint32_t i = count; i-- > 0;) threads_->all[i]->ranges.lock.unlock();
  // Any order in which each thread's events keep theirs, and each range's. That in which it happened is one; so the
  // first in it of those that are left can always go on.
  std::array<std::uint32_t, kThreadsMax> at{};
  std::array<std::uint64_t, kThreadsMax> buried{};
  for (bool more = true; more;) {
    more = false;
    for (std::uint32_t i = 0; i < count; ++i) {
      while (tell_next(core, threads_->all[i]->ranges, at[i], buried[i])) more = true;
    }
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    ThreadRanges& ranges = threads_->all[i]->ranges;
    EBB_CHECK_EQ(at[i], ranges.events().size());
    for (const std::uint64_t offset : ranges.claimed()) buried[i] += core.bury(offset);
    const std::lock_guard lock(ranges.lock);
    ranges.settle(buried[i]);
    if (ranges.crowded()) ranges.tidy();
  }
}

template <typename Allocations>
bool RangeCache::tell_next(Allocations& core, ThreadRanges& ranges, std::uint32_t& at, std::uint64_t& buried) {
  if (at == ranges.events().size()) return false;
  const ThreadRanges::Event event = ranges.events()[at];
  if (core.turns(event.offset()) % RangeTable::kTurns != event.turn()) return false;
  switch (event.kind()) {
    case ThreadRanges::Kind::kDied: core.died(event.offset()); break;
    case ThreadRanges::Kind::kBorn: core.born(event.offset()); break;
    case ThreadRanges::Kind::kLeft:
      core.release(event.offset());
      buried += core.bury(event.offset());
      break;
  }
  ++at;
  return true;
}

}  // namespace ebb
