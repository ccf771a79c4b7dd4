// RangeCache, RangeTable and ThreadRanges in every order of their threads' steps: the program's threads take and put
// without a lock, others tell the core, claim, fork, end. A core of addresses checks that what it is told could have
// been.
#include "runtime/cache/range_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "alloc/heap.h"
#include "interleaving/expectations.h"

namespace ebb::interleaving {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;
constexpr std::uint64_t kSpace = 16 * kBytes;
constexpr std::uint64_t kLimit = 1024 * kBytes;  // threads are granted parts of it that are large
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

// What RangeCache::tell() tells.
class Addresses {
 public:
  std::uint64_t allocate() { return heap_.allocate(kBytes, ++serial_)->offset; }
  std::uint32_t turns(std::uint64_t offset) const { return heap_.find(offset)->turns; }
  void died(std::uint64_t offset) { heap_.park(offset); }
  void born(std::uint64_t offset) { heap_.unpark(offset, ++serial_); }
  void release(std::uint64_t offset) { EBB_CHECK(heap_.find(offset)->parked); }
  std::uint64_t bury(std::uint64_t offset) { return heap_.free(offset).bytes; }
  std::uint64_t live_bytes() const { return heap_.live_bytes(); }

 private:
  Heap heap_{0, kSpace};
  std::uint64_t serial_ = 0;
};

// A runtime, as far as the cache needs one: a lock, and a core behind it.
struct World {
  World() {
    cache.limit(kLimit);
    cache.open();
    for (std::uint64_t& offset : offsets) {
      offset = core.allocate();
      cache.know(offset, kBytes);
    }
  }
  void join() {
    const Beforehand beforehand;  // others have joined by then, or have not: that is another test
    cache.join();
  }
  void tell() {
    const std::lock_guard lock(mutex);
    cache.tell(core);
  }
  std::uint64_t claim() {
    const std::lock_guard lock(mutex);
    return cache.claim_all([](std::uint64_t, std::uint64_t) {});
  }
  // What the program has is live, what is held is idle, and the core knows both.
  void check(std::uint64_t used) {
    cache.tell(core);
    cache.validate();
    require(core.live_bytes() == used * kBytes + cache.counters().idle_bytes, "the core knows what is live");
  }

  std::mutex mutex;
  Addresses core;
  RangeCache cache{kSpace};
  std::array<std::uint64_t, 2> offsets{};
  std::atomic<std::uint64_t> handed{kNothing};
};

// A thread frees a range and asks for one of its size, while another gives up all that is held.
Scenario claimed_while_used() {
  auto world = std::make_shared<World>();
  auto used = std::make_shared<std::uint64_t>(1);
  return {{[=] {
             world->join();
             if (!world->cache.put(world->offsets[0])) return;
             std::uint64_t offset = 0;
             *used = world->cache.take(kBytes, offset) ? 1 : 0;
             if (*used == 1) require(offset == world->offsets[0], "what was freed comes again");
           },
           [=] {
             world->claim();
             world->tell();
           }},
          [=] {
            require(!world->cache.is_open(), "it is closed");
            world->check(1 + *used);
            require(world->cache.counters().held_bytes == 0, "nothing is held where all was claimed");
          }};
}

// What a thread has from its cache another one frees into its own, while a third tells the core: of the two logs it has
// to find the order.
Scenario handed_on() {
  auto world = std::make_shared<World>();
  return {{[=] {
             {
               const Beforehand beforehand;
               world->cache.join();
               EBB_CHECK(world->cache.put(world->offsets[0]));
             }
             std::uint64_t offset = 0;
             require(world->cache.take(kBytes, offset), "it is held");
             world->handed.store(offset, std::memory_order_release);
           },
           [=] {
             world->join();
             std::uint64_t offset = 0;
             while ((offset = world->handed.load(std::memory_order_acquire)) == kNothing) {
             }
             require(world->cache.put(offset), "it is known");
           },
           [=] { world->tell(); }},
          [=] {
            world->check(1);
            require(world->cache.counters().held_bytes == kBytes, "it is held again");
          }};
}

// Two threads free, and there is room for one range.
Scenario limited() {
  auto world = std::make_shared<World>();
  world->cache.limit(kBytes);
  auto held = std::make_shared<std::array<bool, 2>>();
  const auto free_one = [=](std::size_t which) {
    world->join();
    (*held)[which] = world->cache.put(world->offsets[which]);
  };
  return {{[=] { free_one(0); }, [=] { free_one(1); }}, [=] {
            require((*held)[0] != (*held)[1], "one of them");
            world->check(1);
          }};
}

// A thread ends, and another one goes on with what it held.
Scenario inherited() {
  auto world = std::make_shared<World>();
  auto used = std::make_shared<std::uint64_t>(1);
  return {{[=] {
             world->join();
             require(world->cache.put(world->offsets[0]), "there is room");
           },
           [=] {
             {
               const std::lock_guard lock(world->mutex);
               world->cache.join();
             }
             std::uint64_t offset = 0;
             if (world->cache.take(kBytes, offset)) ++*used;
           }},
          [=] { world->check(*used); }};
}

// Who forks finds no thread amid a change.
Scenario forked() {
  auto world = std::make_shared<World>();
  auto used = std::make_shared<std::uint64_t>(1);
  return {{[=] {
             world->join();
             if (!world->cache.put(world->offsets[0])) return;
             std::uint64_t offset = 0;
             *used = world->cache.take(kBytes, offset) ? 1 : 0;
           },
           [=] {
             const std::lock_guard lock(world->mutex);
             world->cache.before_fork();
             world->cache.after_fork();
             world->cache.tell(world->core);
           }},
          [=] { world->check(1 + *used); }};
}

struct Case {
  const char* name;
  Scenario (*make)();
};
class RangeCacheOrders : public testing::TestWithParam<Case> {};
class RangeCacheWeakened : public testing::TestWithParam<Case> {};
std::string name_of(const testing::TestParamInfo<Case>& test) { return test.param.name; }

TEST_P(RangeCacheOrders, AreAllRight) { expect_right(GetParam().make); }

// Those of its spin locks: an exchange that acquires, a store that releases.
TEST_P(RangeCacheWeakened, IsFound) {
  const auto of_spin_lock = [](const Site& site) {
    return (site.kind == Kind::kUpdate && site.order == std::memory_order_acquire) ||
           (site.kind == Kind::kStore && site.order == std::memory_order_release);
  };
  std::size_t exchanges = 0, stores = 0;
  for (const Weakening& weakening : weaken_each(GetParam().make, of_spin_lock)) {
    if (weakening.findings.failure.empty()) continue;
    ++(weakening.site.kind == Kind::kUpdate ? exchanges : stores);
  }
  EXPECT_GE(exchanges, 2u);
  EXPECT_GE(stores, 2u);
}

INSTANTIATE_TEST_SUITE_P(All, RangeCacheOrders,
                         testing::Values(Case{"claimed", claimed_while_used}, Case{"handed", handed_on},
                                         Case{"limited", limited}, Case{"inherited", inherited},
                                         Case{"forked", forked}),
                         name_of);
// Where two threads use what one lock guards.
INSTANTIATE_TEST_SUITE_P(All, RangeCacheWeakened,
                         testing::Values(Case{"claimed", claimed_while_used}, Case{"forked", forked}), name_of);

}  // namespace
}  // namespace ebb::interleaving
