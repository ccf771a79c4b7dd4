// The launch window of the core in the simulated world: what is expected comes ahead of its turn, in order, and takes
// nothing from what is needed earlier.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/core.h"
#include "sim/simulator.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBytes = 4096;
constexpr std::uint32_t kFrames = 64;

class CoreWindowTest : public testing::TestWithParam<const char*> {
 protected:
  CoreWindowTest() : driver_(config(GetParam())) {}

  static SimDriver::Config config(const char* policy) {
    SimDriver::Config config;
    config.frames = kFrames;
    config.extents = 512;
    config.blocks = 1024;
    config.policy = policy;
    return config;
  }

  // Tensors of so many blocks, written in order, so that the last are in memory and the first are not.
  std::vector<Core::Range> make(std::size_t count, std::uint64_t blocks) {
    std::vector<Core::Range> tensors;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t offset = 0;
      EXPECT_EQ(driver_.allocate(blocks * kBytes, offset), Status::kOk);
      tensors.push_back({offset, blocks * kBytes, offset, true});
      fill(tensors.back(), static_cast<int>(i));
    }
    driver_.settle();
    return tensors;
  }
  BlockRange blocks_of(const Core::Range& range) { return driver_.core().blocks_of(range.offset, range.bytes); }
  void fill(const Core::Range& range, int value) {
    const BlockRange blocks = blocks_of(range);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      ASSERT_EQ(driver_.touch(i), SimDriver::Touch::kPresent);
      std::ranges::fill(driver_.memory().bytes(i), static_cast<std::byte>(value));
    }
  }
  bool holds(const Core::Range& range, int value) {
    const BlockRange blocks = blocks_of(range);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (driver_.touch(i) != SimDriver::Touch::kPresent) return false;
      const auto bytes = driver_.memory().bytes(i);
      if (!std::ranges::all_of(bytes, [&](std::byte b) { return b == static_cast<std::byte>(value); })) return false;
    }
    return true;
  }
  std::uint32_t present(const Core::Range& range) {
    std::uint32_t count = 0;
    const BlockRange blocks = blocks_of(range);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) count += driver_.memory().present(i) ? 1 : 0;
    return count;
  }
  std::uint64_t expect(const std::vector<Core::Range>& ranges) {
    const std::uint64_t expected = driver_.core().launches().expect(ranges);
    driver_.core().pump();
    return expected;
  }
  // What is expected begins, does this, and ends.
  template <typename Body>
  void run(std::uint64_t expected, const std::vector<Core::Range>& ranges, Body body) {
    const std::uint64_t ticket = driver_.announce(1, ranges);
    driver_.core().launches().begin(expected);
    body();
    driver_.core().launches().retire(ticket);
    driver_.core().launches().forget(expected);
  }
  // From the first on, each has its number as content.
  void expect_numbers(const std::vector<Core::Range>& tensors, std::size_t first) {
    for (std::size_t i = first; i < tensors.size(); ++i) EXPECT_TRUE(holds(tensors[i], static_cast<int>(i))) << i;
  }
  Stats stats() {
    Stats stats;
    driver_.core().fill(stats);
    return stats;
  }

  SimDriver driver_;
};

TEST_P(CoreWindowTest, WhatIsExpectedComesAheadOfItsTurn) {
  const auto tensors = make(40, 4);
  EXPECT_EQ(present(tensors[0]), 0u);
  EXPECT_EQ(present(tensors[3]), 0u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(expect({tensors[i]}), 0u);
  driver_.settle();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(present(tensors[i]), 4u) << i;
  EXPECT_EQ(stats().prefetched_bytes, 16 * kBytes);
  driver_.validate();
}

TEST_P(CoreWindowTest, TheWindowTakesNothingFromWhatIsNeededEarlier) {
  const auto tensors = make(40, 4);
  // Far more than fits: of the queue its beginning is there, and stays.
  for (const Core::Range& tensor : tensors) expect({tensor});
  driver_.settle();
  std::vector<std::uint32_t> there;
  for (const Core::Range& tensor : tensors) there.push_back(present(tensor));
  // All but a few frames, those kept free and those of the blocks that were touched last, hold what comes next.
  const std::size_t whole = static_cast<std::size_t>(std::ranges::find(there, 0u) - there.begin());
  EXPECT_GE(whole, driver_.core().budget().frames_limit() / 4 * 3 / 4) << testing::PrintToString(there);
  EXPECT_LE(std::accumulate(there.begin() + static_cast<std::ptrdiff_t>(whole), there.end(), 0u), 4u)
      << testing::PrintToString(there);
  const std::uint64_t fetched = stats().fetched_bytes;
  for (int i = 0; i < 10; ++i) driver_.core().pump();
  driver_.settle();
  EXPECT_EQ(stats().fetched_bytes, fetched) << "and nothing goes in circles";
}

TEST_P(CoreWindowTest, AQueueRunsThroughMemoryWithoutAFault) {
  const auto tensors = make(40, 4);
  std::vector<std::uint64_t> expected;
  for (std::size_t round = 0; round < 3; ++round) {
    for (const Core::Range& tensor : tensors) expected.push_back(expect({tensor}));
  }
  driver_.settle();
  const std::uint64_t faults = driver_.counters().faults;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Core::Range& tensor = tensors[i % tensors.size()];
    run(expected[i], {tensor}, [&] {
      EXPECT_EQ(present(tensor), 4u);
      EXPECT_TRUE(holds(tensor, static_cast<int>(i % tensors.size() + i / tensors.size())));
      fill(tensor, static_cast<int>(i % tensors.size() + i / tensors.size()) + 1);
    });
    driver_.core().pump();
    driver_.settle();
    const std::uint64_t next = i + 1 < expected.size() ? present(tensors[(i + 1) % tensors.size()]) : 4;
    EXPECT_EQ(next, 4u) << i;
    driver_.validate();
  }
  EXPECT_EQ(driver_.counters().faults, faults);
  EXPECT_EQ(stats().wasted_bytes, 0u) << "what came ahead stayed until it was needed";
}

TEST_P(CoreWindowTest, WhatIsForgottenIsWorthNoMoreThanTheRest) {
  const auto tensors = make(40, 4);
  std::vector<std::uint64_t> expected;
  for (std::size_t i = 0; i < 6; ++i) expected.push_back(expect({tensors[i]}));
  driver_.settle();
  for (const std::uint64_t number : expected) driver_.core().launches().forget(number);
  driver_.core().launches().forget(expected.front());  // once more, and one that never was
  driver_.core().launches().forget(0);
  for (std::size_t i = 20; i < 30; ++i) expect({tensors[i]});
  driver_.settle();
  for (std::size_t i = 20; i < 28; ++i) EXPECT_EQ(present(tensors[i]), 4u) << i;
  driver_.validate();
}

TEST_P(CoreWindowTest, WhatIsOverwrittenIsNeitherFetchedNorLosesItsNeighbours) {
  const auto tensors = make(40, 4);
  std::uint64_t offset = 0;
  ASSERT_EQ(driver_.allocate(8 * kBytes, offset), Status::kOk);
  const Core::Range all{offset, 8 * kBytes, offset, true};
  fill(all, 77);
  const auto others = make(20, 4);
  EXPECT_EQ(present(all), 0u);
  const std::uint64_t fetched = stats().fetched_bytes;
  // From the middle of its second block to the middle of its last: six whole blocks and two halves.
  Core::Range part{offset + kBytes * 3 / 2, 6 * kBytes, offset, true};
  part.overwritten = true;
  const std::uint64_t expected = expect({part});
  driver_.settle();
  EXPECT_EQ(present(part), 7u);
  EXPECT_EQ(stats().fetched_bytes - fetched, 2 * kBytes) << "the halves have something to keep";
  const BlockRange whole = driver_.core().whole_blocks_of(part.offset, part.bytes);
  EXPECT_EQ(whole.count, 5u);
  run(expected, {part}, [&] { fill({whole.first.value() * kBytes, whole.count * kBytes}, 78); });
  make(20, 4);
  EXPECT_TRUE(holds({offset, 2 * kBytes}, 77));
  EXPECT_TRUE(holds({whole.first.value() * kBytes, whole.count * kBytes}, 78));
  EXPECT_TRUE(holds({offset + 7 * kBytes, kBytes}, 77));
  EXPECT_TRUE(holds(others[0], 0));
  EXPECT_TRUE(holds(tensors[3], 3));
  driver_.validate();
}

// A launch reads what the next one overwrites. While it runs, everything is driven out of memory by touches that nobody
// announced: what it has not read yet must be there nevertheless.
TEST_P(CoreWindowTest, WhatARunningLaunchReadsIsNotGivenUpForOneThatOverwrites) {
  const auto tensors = make(40, 4);
  Core::Range overwritten = tensors[0];
  overwritten.overwritten = true;
  const std::uint64_t first = expect({tensors[0]});
  const std::uint64_t second = expect({overwritten});
  driver_.settle();
  run(first, {tensors[0]}, [&] {
    expect_numbers(tensors, 1);
    driver_.settle();
    EXPECT_TRUE(holds(tensors[0], 0));
  });
  // And while the second one runs, what it has written.
  run(second, {overwritten}, [&] {
    fill(tensors[0], 100);
    expect_numbers(tensors, 1);
    driver_.settle();
    EXPECT_TRUE(holds(tensors[0], 100));
  });
  driver_.validate();
}

TEST_P(CoreWindowTest, BehindALaunchLargerThanMemoryNothingIsGivenUp) {
  const auto tensors = make(40, 4);
  const std::uint64_t first = expect(tensors);
  Core::Range overwritten = tensors[39];
  overwritten.overwritten = true;
  const std::uint64_t second = expect({overwritten});
  run(first, tensors, [&] { expect_numbers(tensors, 0); });
  driver_.core().launches().forget(second);
  driver_.validate();
}

TEST_P(CoreWindowTest, WhatWillBeOverwrittenLeavesWithoutAWrite) {
  const auto absent = make(8, 4);
  const auto tensors = make(20, 4);  // some of them, the last, are in memory, and are not on flash
  EXPECT_EQ(present(absent[7]), 0u);
  // In place of them comes what is needed earlier.
  const std::uint64_t evicted = stats().evicted_bytes;
  std::vector<std::uint64_t> expected{driver_.core().launches().expect(absent)};
  for (Core::Range range : tensors) {
    range.overwritten = true;
    const Core::Range ranges[] = {range};
    expected.push_back(driver_.core().launches().expect(ranges));
  }
  driver_.core().pump();
  driver_.settle();
  for (const Core::Range& range : absent) EXPECT_EQ(present(range), 4u);
  EXPECT_EQ(stats().evicted_bytes, evicted);
  for (const std::uint64_t number : expected) driver_.core().launches().forget(number);
  driver_.validate();
}

INSTANTIATE_TEST_SUITE_P(Policies, CoreWindowTest, testing::Values("window", "foresight"),
                         [](const auto& test) { return std::string(test.param); });

TEST(CoreWindow, OnDemandDoesNotListen) {
  SimDriver::Config config;
  config.policy = "on_demand";
  SimDriver driver(config);
  std::uint64_t offset = 0;
  ASSERT_EQ(driver.allocate(4 * kBytes, offset), Status::kOk);
  const Core::Range ranges[] = {{offset, 4 * kBytes, offset, true}};
  EXPECT_EQ(driver.core().launches().expect(ranges), 0u);
}

}  // namespace
}  // namespace ebb
