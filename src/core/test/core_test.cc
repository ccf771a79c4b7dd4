// The core as a runtime drives it, in the simulated world: what a program may rely on, one promise at a time.
#include "core/core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/simulator.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBytes = 4096;

SimDriver::Config machine(std::uint32_t frames, std::uint32_t extents, std::string_view policy = "window") {
  SimDriver::Config config;
  config.frames = frames;
  config.extents = extents;
  config.policy = policy;
  config.blocks = 1024;
  return config;
}

std::uint64_t allocate(SimDriver& driver, std::uint64_t blocks) {
  std::uint64_t offset = 0;
  EXPECT_EQ(driver.allocate(blocks * kBytes, offset), Status::kOk);
  return offset;
}

Core::Range range(std::uint64_t offset, std::uint64_t blocks) { return {offset, blocks * kBytes, offset, true}; }

BlockIndex block_at(std::uint64_t offset) { return BlockIndex(static_cast<std::uint32_t>(offset / kBytes)); }

void write(SimDriver& driver, std::uint64_t offset, std::uint64_t blocks, int value) {
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const BlockIndex block = block_at(offset + i * kBytes);
    ASSERT_EQ(driver.touch(block), SimDriver::Touch::kPresent);
    std::ranges::fill(driver.memory().bytes(block), static_cast<std::byte>(value + static_cast<int>(i)));
  }
}

std::uint64_t written(SimDriver& driver, std::uint64_t blocks, int value) {
  const std::uint64_t offset = allocate(driver, blocks);
  write(driver, offset, blocks, value);
  return offset;
}

bool reads(SimDriver& driver, std::uint64_t offset, std::uint64_t blocks, int value) {
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const BlockIndex block = block_at(offset + i * kBytes);
    if (driver.touch(block) != SimDriver::Touch::kPresent) return false;
    const auto expected = static_cast<std::byte>(value + static_cast<int>(i));
    if (!std::ranges::all_of(driver.memory().bytes(block), [&](std::byte b) { return b == expected; })) return false;
  }
  return true;
}

// A core whose driver is asked for five frames ahead, of sixteen.
class FramesAhead : public ::testing::Test {
 protected:
  static Core::Config config() {
    Core::Config config;
    config.block_bytes = kBytes;
    config.budget_bytes = 16 * kBytes;
    config.blocks = 1024;
    config.extents = 64;
    config.tables_in_budget = false;
    config.frames_ahead = 5;
    return config;
  }

  FaultPlan plan_;
  NthFault nth_;
  EventLog log_;
  SimMemory memory_{{kBytes, 1024, 16, 1}, plan_, nth_, log_};
  Core core_{config(), memory_, make_policy("window")};
};

TEST_F(FramesAhead, AreMadeAsFarAsAskedFor) {
  for (int i = 0; i < 5; ++i) {
    const FrameIndex frame = core_.budget().begin_frame_ahead();
    ASSERT_TRUE(frame.valid());
    EXPECT_TRUE(core_.budget().making_frame_ahead());
    EXPECT_FALSE(core_.budget().begin_frame_ahead().valid());  // one at a time
    ASSERT_EQ(memory_.create(frame), Status::kOk);
    core_.budget().end_frame_ahead(frame, Status::kOk);
  }
  EXPECT_FALSE(core_.budget().begin_frame_ahead().valid());
  EXPECT_EQ(memory_.created(), 5u);
  EXPECT_FALSE(core_.budget().making_frame_ahead());
}

TEST_F(FramesAhead, OneThatCannotBeMadeIsTheLastTried) {
  core_.budget().end_frame_ahead(core_.budget().begin_frame_ahead(), Status::kBusy);
  EXPECT_FALSE(core_.budget().begin_frame_ahead().valid());
  EXPECT_EQ(core_.budget().frames_limit(), 16u);
}

TEST(Core, HoldsFarMoreThanMemory) {
  for (const char* policy : {"on_demand", "window", "foresight"}) {
    SimDriver driver(machine(8, 256, policy));
    const std::uint64_t offset = written(driver, 100, 1);
    EXPECT_TRUE(reads(driver, offset, 100, 1)) << policy;
    EXPECT_LE(driver.memory().created(), 8u);
    driver.validate();
  }
}

TEST(Core, AnAnnouncedLaunchFindsItsBlocksWithoutFaults) {
  SimDriver driver(machine(16, 64));
  const std::uint64_t first = written(driver, 8, 1);
  written(driver, 12, 50);
  driver.settle();
  const std::uint64_t faults = driver.counters().faults;
  const Core::Range ranges[] = {range(first, 8)};
  const std::uint64_t ticket = driver.announce(1, ranges);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(driver.memory().present(block_at(first + i * kBytes))) << i;
  EXPECT_TRUE(reads(driver, first, 8, 1));
  EXPECT_EQ(driver.counters().faults, faults);
  driver.core().launches().retire(ticket);
}

TEST(Core, ALaunchLargerThanMemoryComesToItsEnd) {
  for (const char* policy : {"on_demand", "window", "foresight"}) {
    SimDriver driver(machine(8, 256, policy));
    const std::uint64_t first = allocate(driver, 40);
    const std::uint64_t second = allocate(driver, 40);
    write(driver, first, 40, 1);
    write(driver, second, 40, 100);
    std::vector<Core::Range> ranges;
    for (std::uint64_t i = 0; i < 40; ++i) {
      for (const std::uint64_t offset : {first, second}) {
        ranges.push_back({offset + i * kBytes, kBytes, offset, true, static_cast<std::uint32_t>(i)});
      }
    }
    const std::uint64_t ticket = driver.announce(1, ranges);
    EXPECT_TRUE(reads(driver, first, 40, 1)) << policy;
    EXPECT_TRUE(reads(driver, second, 40, 100)) << policy;
    driver.core().launches().retire(ticket);
    driver.settle();
    driver.validate();
  }
}

std::uint64_t fetched(SimDriver& driver) { return driver.core().engine().counters().fetched; }

// One operator on one tensor, gone through by two threads, each its own half, again and again.
std::uint64_t fetched_by_passes(std::string_view policy, std::uint64_t blocks, int passes) {
  SimDriver driver(machine(64, 512, policy));
  const std::uint64_t offset = written(driver, blocks, 1);
  const Core::Range ranges[] = {range(offset, blocks)};
  const std::uint64_t before = fetched(driver);
  for (int pass = 0; pass < passes; ++pass) {
    const std::uint64_t ticket = driver.announce(1, ranges);
    for (std::uint64_t i = 0; i < blocks / 2; ++i) {
      EXPECT_TRUE(reads(driver, offset + i * kBytes, 1, 1 + static_cast<int>(i)));
      EXPECT_TRUE(reads(driver, offset + (blocks / 2 + i) * kBytes, 1, 1 + static_cast<int>(blocks / 2 + i)));
    }
    driver.core().launches().retire(ticket);
  }
  driver.validate();
  return fetched(driver) - before;
}

TEST(Core, OneOperatorOnMoreThanMemoryFetchesNothingTwice) {
  for (const char* policy : {"window", "foresight"}) {
    const std::uint64_t blocks = fetched_by_passes(policy, 128, 4);
    EXPECT_LE(blocks, 4u * 132) << policy;
  }
}

TEST(Core, OfWhatIsGoneThroughAgainAndAgainMostStays) { EXPECT_LE(fetched_by_passes("foresight", 128, 32), 24u * 128); }

TEST(Core, WhatAHugeAllocationHeldBeforeIsNeitherWrittenNorFetched) {
  SimDriver driver(machine(64, 512, "foresight"));
  for (int pass = 0; pass < 4; ++pass) {
    const std::uint64_t evicted = driver.core().engine().counters().evicted, read = fetched(driver);
    const std::uint64_t offset = written(driver, 60, pass);
    driver.deallocate(offset);
    if (pass == 0) continue;
    EXPECT_EQ(fetched(driver), read);
    EXPECT_LE(driver.core().engine().counters().evicted - evicted, 8u);
  }
  driver.validate();
}

TEST(Core, WhatRunsStaysWhileOthersAreAnnounced) {
  SimDriver driver(machine(16, 64));
  const std::uint64_t inner = written(driver, 4, 1);
  const Core::Range running[] = {range(inner, 4)};
  const std::uint64_t outer = driver.announce(1, running);
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t other = written(driver, 10, 10 * i);
    const Core::Range ranges[] = {range(other, 4)};
    driver.core().launches().retire(driver.announce(2, ranges));
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    const BlockState state = driver.core().table()[block_at(inner + i * kBytes)].state;
    EXPECT_TRUE(state == BlockState::kResident || state == BlockState::kOnFlash);
  }
  EXPECT_TRUE(reads(driver, inner, 4, 1));
  driver.core().launches().retire(outer);
}

TEST(Core, AllocationFailsWhenNeitherMemoryNorFlashHasAPlace) {
  SimDriver driver(machine(8, 8));
  std::vector<std::uint64_t> offsets;
  std::uint64_t offset = 0;
  while (driver.allocate(kBytes, offset) == Status::kOk) offsets.push_back(offset);
  EXPECT_EQ(offsets.size(), 14u);  // 16 places, of which two stay free for moving
  // All of them can be used, and freeing one makes room for one.
  for (int i = 0; i < 14; ++i) write(driver, offsets[static_cast<std::size_t>(i)], 1, i);
  for (int i = 0; i < 14; ++i) EXPECT_TRUE(reads(driver, offsets[static_cast<std::size_t>(i)], 1, i)) << i;
  driver.deallocate(offsets.back());
  EXPECT_EQ(driver.allocate(kBytes, offset), Status::kOk);
  EXPECT_EQ(driver.allocate(kBytes, offset), Status::kNoMemory);
  EXPECT_EQ(driver.allocate(1ull << 60, offset), Status::kNoMemory);
  driver.validate();
}

TEST(Core, AFlashSmallerThanPromisedIsMetBeforeAnythingIsEvicted) {
  SimDriver::Config config = machine(8, 256);
  config.faults.extents_available = 0;
  SimDriver driver(config);
  std::vector<std::uint64_t> offsets;
  std::uint64_t offset = 0;
  while (driver.allocate(kBytes, offset) == Status::kOk) {
    offsets.push_back(offset);
    driver.settle();
    ASSERT_LT(offsets.size(), 300u);
  }
  EXPECT_LE(offsets.size(), 8u);
  for (std::size_t i = 0; i < offsets.size(); ++i) write(driver, offsets[i], 1, static_cast<int>(i));
  for (std::size_t i = 0; i < offsets.size(); ++i) EXPECT_TRUE(reads(driver, offsets[i], 1, static_cast<int>(i)));
  EXPECT_EQ(driver.counters().starved, 0u);
}

TEST(Core, SmallAllocationsTakeTheirShareOfTheBudget) {
  SimDriver driver(machine(32, 128));
  const std::uint64_t offset = written(driver, 40, 1);
  driver.settle();
  const std::uint32_t before = driver.memory().created();
  driver.set_small_bytes(16 * kBytes);
  driver.settle();
  EXPECT_LE(driver.memory().created() + 16, before + 1);
  EXPECT_TRUE(reads(driver, offset, 40, 1));
  // They may exceed the budget, and still there is enough to go on.
  driver.set_small_bytes(1000 * kBytes);
  driver.settle();
  EXPECT_EQ(driver.memory().created(), Core::kFramesMin);
  EXPECT_TRUE(reads(driver, offset, 40, 1));
  driver.set_small_bytes(0);
  EXPECT_TRUE(reads(driver, offset, 40, 1));
  EXPECT_LT(Core::kFramesMin, driver.memory().created());
}

TEST(Core, ABudgetShrinksAndGrowsWhileItIsUsed) {
  SimDriver driver(machine(64, 128));
  const std::uint64_t most = driver.core().budget().most_bytes();
  const std::uint64_t offset = written(driver, 60, 1);
  driver.settle();
  ASSERT_LE(50u, driver.memory().created());
  driver.set_budget(most - 40 * kBytes);
  driver.settle();
  EXPECT_LE(driver.memory().created(), driver.core().budget().frames_limit());
  EXPECT_LE(driver.core().budget().resident_bytes(), most - 40 * kBytes);
  EXPECT_TRUE(reads(driver, offset, 60, 1));
  driver.set_budget(most);
  const std::uint32_t before = driver.memory().created();
  EXPECT_LE(before, 24u) << "frames come when they are needed";
  EXPECT_TRUE(reads(driver, offset, 60, 1));
  EXPECT_LT(before, driver.memory().created());
}

TEST(Core, ABudgetKeepsAPlaceForAllThatIsAlive) {
  SimDriver driver(machine(64, 16));
  const std::uint64_t most = driver.core().budget().most_bytes();
  const std::uint64_t offset = written(driver, 50, 1);
  EXPECT_LE((50 + 2 - 16) * kBytes, driver.core().budget().least_bytes());
  driver.set_budget(0);
  driver.settle();
  EXPECT_LT(driver.core().budget().bytes(), most);
  EXPECT_TRUE(reads(driver, offset, 50, 1));
  driver.deallocate(offset);
  driver.set_budget(0);
  driver.settle();
  driver.set_budget(0);  // the tables of what was freed are smaller now
  driver.settle();
  EXPECT_EQ(driver.memory().created(), Core::kFramesMin);
}

TEST(Core, AllocationsShareBlocksAndKeepThemUntilTheLastIsGone) {
  SimDriver driver(machine(8, 64));
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  ASSERT_EQ(driver.allocate(1000, first), Status::kOk);
  ASSERT_EQ(driver.allocate(1000, second), Status::kOk);
  const BlockIndex block = block_at(first);
  ASSERT_EQ(block, block_at(second));
  ASSERT_EQ(driver.touch(block), SimDriver::Touch::kPresent);
  driver.memory().bytes(block)[second % kBytes] = std::byte{42};
  driver.deallocate(first);
  const std::uint64_t other = written(driver, 20, 1);
  ASSERT_EQ(driver.touch(block), SimDriver::Touch::kPresent);
  EXPECT_EQ(driver.memory().bytes(block)[second % kBytes], std::byte{42});
  driver.deallocate(second);
  driver.deallocate(other);
  driver.settle();
  EXPECT_EQ(driver.core().extents().used(), 0u);
}

// The kernel that fills a new tensor must not wait for its neighbour's block page by page.
TEST(Core, AnAllocationBringsBackTheBlockThatItShares) {
  SimDriver driver(machine(8, 64));
  std::uint64_t first = 0;
  ASSERT_EQ(driver.allocate(1000, first), Status::kOk);
  const BlockIndex block = block_at(first);
  ASSERT_EQ(driver.touch(block), SimDriver::Touch::kPresent);
  driver.memory().bytes(block)[first % kBytes] = std::byte{42};
  written(driver, 20, 1);
  driver.settle();
  ASSERT_EQ(driver.core().table()[block].state, BlockState::kOnFlash);
  const std::uint64_t faults = driver.counters().faults;
  std::uint64_t second = 0;
  ASSERT_EQ(driver.allocate(1000, second), Status::kOk);
  ASSERT_EQ(block, block_at(second));
  driver.settle();
  EXPECT_TRUE(driver.memory().present(block));
  EXPECT_EQ(driver.memory().bytes(block)[first % kBytes], std::byte{42});
  EXPECT_EQ(driver.counters().faults, faults);
}

TEST(Core, ASnapshotStaysAsItWas) {
  SimDriver driver(machine(8, 128));
  const std::uint64_t offset = written(driver, 20, 1);
  ASSERT_TRUE(driver.flush());
  const std::vector<ExtentIndex> snapshot = driver.core().snapshot();
  EXPECT_EQ(snapshot.size(), 20u);
  std::vector<ExtentIndex> extents;
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < 20; ++i) {
    extents.push_back(driver.core().table()[block_at(offset + i * kBytes)].extent);
    digests.push_back(driver.core().extents().digest_of(extents.back()));
  }
  write(driver, offset, 20, 100);
  EXPECT_TRUE(reads(driver, offset, 20, 100));
  driver.settle();
  std::vector<std::byte> buffer(kBytes);
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(driver.flash().read_now({.has_expected = true, .extent = extents[i], .expected = digests[i]}, buffer),
              Status::kOk);
    EXPECT_EQ(buffer[0], static_cast<std::byte>(1 + i));
  }
  driver.core().release_snapshot(snapshot);
  driver.deallocate(offset);
  driver.settle();
  EXPECT_EQ(driver.core().extents().used(), 0u);
}

TEST(Core, PinnedPagesDoNotStopTheRest) {
  SimDriver driver(machine(16, 128));
  const std::uint64_t offset = written(driver, 60, 1);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const BlockIndex block = block_at(offset + i * kBytes);
    if (driver.memory().present(block) && driver.memory().pinned() < 8) driver.memory().pin(block);
  }
  EXPECT_TRUE(reads(driver, offset, 60, 1));
  EXPECT_EQ(driver.counters().starved, 0u);
  EXPECT_EQ(driver.memory().pinned(), 8u);
}

TEST(Core, StatsAddUp) {
  SimDriver driver(machine(20, 128));
  const std::uint64_t offset = written(driver, 30, 1);
  EXPECT_TRUE(reads(driver, offset, 30, 1));
  driver.settle();
  Stats stats;
  driver.core().fill(stats);
  EXPECT_LE(stats.resident_bytes, stats.budget_bytes + kBytes);
  EXPECT_EQ(stats.live_bytes, 30 * kBytes);
  EXPECT_EQ(stats.peak_live_bytes, 30 * kBytes);
  EXPECT_EQ(stats.allocations, 1u);
  EXPECT_GE(stats.evicted_bytes, 10 * kBytes);
  EXPECT_GE(stats.fetched_bytes, 10 * kBytes);
  EXPECT_GT(stats.clean_bytes, 0u);
  EXPECT_EQ(stats.flash_limit_bytes, 128 * kBytes);
  EXPECT_EQ(stats.corrupt_blocks, 0u);
  driver.deallocate(offset);
  allocate(driver, 30);
  driver.core().fill(stats);
  EXPECT_EQ(stats.reused, 1u);
}

TEST(Core, FlashGrowsToAPlaceForAllThatIsAlive) {
  SimDriver driver(machine(16, 512));
  allocate(driver, 300);
  EXPECT_TRUE(driver.core().budget().owes_extents());
  driver.settle();
  EXPECT_FALSE(driver.core().budget().owes_extents());
  EXPECT_LE(300u + 2 - 16, driver.core().extents().capacity());
}

TEST(Core, ADeviceWithLessThanItSaysTakesThePromiseBack) {
  SimDriver::Config config = machine(16, 512);
  config.faults.extents_available = 200;
  SimDriver driver(config);
  const std::uint64_t offset = allocate(driver, 300);
  EXPECT_TRUE(driver.core().budget().has_places(0, 0));
  driver.settle();
  EXPECT_FALSE(driver.core().budget().owes_extents());  // it will not come
  EXPECT_FALSE(driver.core().budget().has_places(0, 0));
  driver.deallocate(offset);
  allocate(driver, 100);
  driver.settle();
  EXPECT_TRUE(driver.core().budget().has_places(0, 0));
}

TEST(Core, IteratingForesightFetchesAhead) {
  SimDriver driver(machine(24, 256, "foresight"));
  std::vector<std::uint64_t> layers;
  for (int i = 0; i < 10; ++i) {
    layers.push_back(written(driver, 4, 10 * i));
  }
  for (int step = 0; step < 6; ++step) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Core::Range ranges[] = {range(layers[i], 4)};
      const std::uint64_t ticket = driver.announce(i, ranges);
      EXPECT_TRUE(reads(driver, layers[i], 4, 10 * static_cast<int>(i)));
      driver.core().launches().retire(ticket);
      driver.core().pump();
    }
    driver.core().launches().step();
  }
  EXPECT_GT(driver.core().engine().counters().prefetched, 20u);
}

}  // namespace
}  // namespace ebb
