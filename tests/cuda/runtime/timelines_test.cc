// Timelines and FrameMap on a device whose clock the test sets: what is known without asking it, and how often it is
// asked.
#include "runtime/device/timelines.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/device/frame_map.h"
#include "timed_device.h"

namespace ebb {
namespace {

constexpr std::uint32_t kBlocks = 64;
constexpr std::uint64_t kKernelNs = 1'000'000;

class TimelinesTest : public testing::Test {
 protected:
  void SetUp() override {
    device_.stop_clock();
    ASSERT_EQ(Timelines::make(device_, timelines_), Status::kOk);
  }
  void TearDown() override {
    timelines_.reset();
    EXPECT_EQ(device_.live_events(), 0u);
  }
  // A kernel in the stream with this number, and a mark behind it.
  Fences run(std::size_t stream, std::uint64_t ns = kKernelNs) {
    const std::uint32_t line = timelines_->line_of(&streams_.at(stream));
    device_.run(&streams_.at(stream), ns);
    std::uint64_t mark = 0;
    EXPECT_EQ(timelines_->mark(line, mark), Status::kOk);
    Fences fences;
    fences.add(line, mark);
    return fences;
  }
  std::uint64_t queried() const { return device_.calls().queried; }

  // Unmapping takes no time: what a test expects to be under way still is.
  TimedDevice device_{64 * 1024, kBlocks, 64 * 1024, TimedDevice::Costs{.unmap = 0, .unmap_block = 0}};
  std::array<std::uint64_t, 4> streams_{};
  std::unique_ptr<Timelines> timelines_;
};

TEST_F(TimelinesTest, KnownDoneIsWhatTheDeviceHasSaidLast) {
  EXPECT_TRUE(timelines_->known_done({}));
  const Fences first = run(0);
  const Fences second = run(0);
  Fences both = first;
  both.add(run(1, 10 * kKernelNs));
  EXPECT_FALSE(timelines_->known_done(first));
  device_.pass(3 * kKernelNs);
  EXPECT_FALSE(timelines_->known_done(first));  // it is, but nobody has asked
  EXPECT_EQ(queried(), 0u);
  timelines_->poll();
  const std::uint64_t asked = queried();
  EXPECT_TRUE(timelines_->known_done(first));
  EXPECT_TRUE(timelines_->known_done(second));
  EXPECT_FALSE(timelines_->known_done(both));
  EXPECT_EQ(queried(), asked);
  device_.pass(10 * kKernelNs);
  EXPECT_TRUE(timelines_->done(both));  // which asks
  EXPECT_GT(queried(), asked);
  EXPECT_TRUE(timelines_->known_done(both));
}

TEST_F(TimelinesTest, OfALostDeviceEverythingIsKnownDone) {
  const Fences fences = run(0);
  EXPECT_FALSE(timelines_->known_done(fences));
  device_.lose("the GPU is gone");
  EXPECT_TRUE(timelines_->known_done(fences));
  EXPECT_TRUE(timelines_->done(fences));
  EXPECT_EQ(timelines_->wait_here(fences), Status::kIoError);
}

// Frames under all blocks but the last, each used by another launch in one of three streams.
class FrameMapTest : public TimelinesTest {
 protected:
  static constexpr std::uint32_t kUsed = kBlocks - 1;
  static constexpr std::uint32_t kStreams = 3;

  void SetUp() override {
    TimelinesTest::SetUp();
    map_.emplace(device_, *timelines_, kBlocks, kBlocks, false);
    std::vector<BlockIndex> all;
    for (std::uint32_t i = 0; i < kUsed; ++i) {
      ASSERT_EQ(map_->create(FrameIndex(i)), Status::kOk);
      map_->attach(FrameIndex(i), BlockIndex(i));
      all.push_back(BlockIndex(i));
    }
    ASSERT_EQ(map_->apply(all), Status::kOk);
    for (std::uint32_t i = 0; i < kUsed; ++i) {
      const std::uint32_t line = timelines_->line_of(&streams_.at(i % kStreams));
      map_->used(FrameIndex(i), line, run(i % kStreams)[line]);
    }
  }
  void detach(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(map_->detach(BlockIndex(i), FrameIndex(i)), Status::kOk);
    }
  }
  // Changes what can be, eight at once, until nothing is left.
  std::uint64_t queries_of_changes() {
    const std::uint64_t before = queried();
    for (FrameMap::Changes changes;;) {
      map_->begin_changes(changes);
      if (changes.empty()) return queried() - before;
      map_->make(changes);
      map_->end_changes(changes);
    }
  }

  std::optional<FrameMap> map_;
};

TEST_F(FrameMapTest, WhereNothingLeavesTheDeviceIsNotAsked) { EXPECT_EQ(queries_of_changes(), 0u); }

TEST_F(FrameMapTest, ManyDeparturesAreOneQuestionALine) {
  detach(60);
  EXPECT_EQ(queries_of_changes(), kStreams);
  EXPECT_EQ(queries_of_changes(), kStreams);
  EXPECT_EQ(device_.calls().unmapped, 0u);
  // Marks that are over are asked for once, and the oldest of each line that is not.
  device_.pass(5 * kKernelNs + kKernelNs / 2);
  EXPECT_EQ(queries_of_changes(), kStreams * (5 + 1) + 2 * kStreams);
  EXPECT_EQ(device_.calls().unmapped, kStreams * 5);
  EXPECT_EQ(queries_of_changes(), kStreams);
  device_.pass(kUsed * kKernelNs);
  EXPECT_EQ(queries_of_changes(), kUsed - kStreams * 5);
  EXPECT_EQ(device_.calls().unmapped, 60u);
  EXPECT_EQ(queries_of_changes(), 0u);
}

TEST_F(FrameMapTest, WhatIsWantedAgainStaysMapped) {
  detach(60);
  for (std::uint32_t i = 0; i < 60; ++i) map_->attach(FrameIndex(i), BlockIndex(i));
  const std::uint64_t mapped = device_.calls().mapped;
  device_.pass(kUsed * kKernelNs);
  EXPECT_EQ(queries_of_changes(), 0u);
  EXPECT_EQ(device_.calls().unmapped, 0u);
  EXPECT_EQ(device_.calls().mapped, mapped);
}

// An address that is being changed beside the program, and what may be wanted there by the time that it is done.
class ChangesTest : public FrameMapTest {
 protected:
  static constexpr std::uint32_t kSpare = kUsed;  // the frame and the block that FrameMapTest leaves
  void SetUp() override {
    FrameMapTest::SetUp();
    ASSERT_EQ(map_->create(FrameIndex(kSpare)), Status::kOk);
    map_->attach(FrameIndex(kSpare), BlockIndex(kSpare));
    map_->begin_changes(changes_);
    ASSERT_EQ(changes_.arrivals.size(), 1u);
  }
  Status apply(std::uint32_t block) {
    const BlockIndex needed[] = {BlockIndex(block)};
    return map_->apply(needed);
  }
  void end() {
    map_->make(changes_);
    map_->end_changes(changes_);
  }
  FrameMap::Changes changes_;
};

TEST_F(ChangesTest, WhoNeedsItWaitsForTheEnd) {
  const std::uint64_t mapped = device_.calls().mapped;
  EXPECT_EQ(apply(kSpare), Status::kBusy);
  EXPECT_EQ(apply(0), Status::kOk);
  end();
  EXPECT_EQ(apply(kSpare), Status::kOk);
  EXPECT_EQ(device_.calls().mapped, mapped + 1);
}

TEST_F(ChangesTest, WhatIsNotWantedAnyMoreLeavesAgain) {
  ASSERT_EQ(map_->detach(BlockIndex(kSpare), FrameIndex(kSpare)), Status::kOk);
  end();
  EXPECT_TRUE(map_->leaving());
  const std::uint64_t unmapped = device_.calls().unmapped;
  static_cast<void>(queries_of_changes());
  EXPECT_EQ(device_.calls().unmapped, unmapped + 1);
  EXPECT_FALSE(map_->leaving());
}

TEST_F(ChangesTest, AnotherFrameMayBeWantedThere) {
  ASSERT_EQ(map_->detach(BlockIndex(kSpare), FrameIndex(kSpare)), Status::kOk);
  ASSERT_EQ(map_->detach(BlockIndex(0), FrameIndex(0)), Status::kOk);
  map_->attach(FrameIndex(0), BlockIndex(kSpare));
  end();
  device_.pass(kUsed * kKernelNs);
  EXPECT_EQ(apply(kSpare), Status::kOk);
  const std::uint64_t mapped = device_.calls().mapped;
  static_cast<void>(queries_of_changes());
  EXPECT_EQ(device_.calls().mapped, mapped);
}

TEST_F(ChangesTest, AFrameThatIsDestroyedMeanwhileGoesAtTheEnd) {
  ASSERT_EQ(map_->detach(BlockIndex(kSpare), FrameIndex(kSpare)), Status::kOk);
  map_->destroy(FrameIndex(kSpare));
  const std::uint64_t unmapped = device_.calls().unmapped;
  end();
  EXPECT_EQ(device_.calls().unmapped, unmapped + 1);
  EXPECT_FALSE(map_->leaving());
}

TEST_F(ChangesTest, WhatLeavesAndComesBackToItsFrameIsMappedAnew) {
  end();
  ASSERT_EQ(map_->detach(BlockIndex(kSpare), FrameIndex(kSpare)), Status::kOk);
  map_->begin_changes(changes_);
  ASSERT_EQ(changes_.departures.size(), 1u);
  map_->attach(FrameIndex(kSpare), BlockIndex(kSpare));
  EXPECT_EQ(apply(kSpare), Status::kBusy);
  end();
  EXPECT_TRUE(map_->arriving());
  EXPECT_EQ(apply(kSpare), Status::kOk);
  const std::uint64_t mapped = device_.calls().mapped;
  static_cast<void>(queries_of_changes());
  EXPECT_EQ(device_.calls().mapped, mapped);
}

TEST_F(ChangesTest, WhatFailsIsLeftToWhoNeedsIt) {
  device_.lose("the test takes it away");
  end();
  EXPECT_EQ(apply(kSpare), Status::kIoError);
}

}  // namespace
}  // namespace ebb
