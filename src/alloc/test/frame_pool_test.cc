// FramePool: a hard budget of frames over memory that may refuse.
#include "alloc/frame_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/sim_memory.h"

namespace ebb {
namespace {

class FramePoolTest : public ::testing::Test {
 protected:
  FaultPlan plan_;
  NthFault nth_;
  EventLog log_;
  SimMemory memory_{{64, 8, 8, 1}, plan_, nth_, log_};
  FramePool pool_{memory_, 8};
};

TEST_F(FramePoolTest, CreatesAsNeededUpToTheLimit) {
  EXPECT_EQ(pool_.created(), 0u);
  std::vector<FrameIndex> frames;
  for (FrameIndex frame = pool_.take(); frame.valid(); frame = pool_.take()) frames.push_back(frame);
  EXPECT_EQ(frames.size(), 8u);
  EXPECT_EQ(memory_.created(), 8u);
  EXPECT_EQ(pool_.room(), 0u);
  for (const FrameIndex frame : frames) pool_.put(frame);
  EXPECT_EQ(pool_.free(), 8u);
  EXPECT_EQ(memory_.created(), 8u);  // kept for the next
  pool_.validate();
}

TEST_F(FramePoolTest, ReusesTheMostRecentlyFreed) {
  const FrameIndex first = pool_.take();
  const FrameIndex second = pool_.take();
  pool_.put(first);
  pool_.put(second);
  EXPECT_EQ(pool_.take(), second);
  EXPECT_EQ(pool_.take_free(), first);
  EXPECT_FALSE(pool_.take_free().valid());
}

TEST_F(FramePoolTest, OrTheOneThatHasBeenFreeForLongest) {
  FramePool pool(memory_, 8, true);
  const FrameIndex first = pool.take();
  const FrameIndex second = pool.take();
  pool.put(second);
  pool.put(first);
  EXPECT_EQ(pool.take(), second);
  EXPECT_EQ(pool.take_free(), first);
  EXPECT_FALSE(pool.take_free().valid());
}

TEST_F(FramePoolTest, AFrameMadeAheadCountsAtOnceAndIsTheLastToBeUsed) {
  const FrameIndex used = pool_.take();
  const FrameIndex ahead = pool_.begin_ahead();
  EXPECT_EQ(pool_.created(), 2u);
  EXPECT_EQ(pool_.room(), 6u);
  EXPECT_FALSE(pool_.begin_ahead().valid());  // one at a time
  ASSERT_EQ(memory_.create(ahead), Status::kOk);
  pool_.end_ahead(ahead, Status::kOk);
  pool_.put(used);
  EXPECT_EQ(pool_.take(), used);
  EXPECT_EQ(pool_.take(), ahead);
  EXPECT_EQ(memory_.created(), 2u);
  pool_.validate();
}

TEST_F(FramePoolTest, AFrameMadeAheadAboveAShrunkLimitIsDestroyed) {
  const FrameIndex used = pool_.take();
  const FrameIndex ahead = pool_.begin_ahead();
  ASSERT_EQ(memory_.create(ahead), Status::kOk);
  pool_.set_limit(1);
  EXPECT_TRUE(pool_.over());
  pool_.end_ahead(ahead, Status::kOk);
  EXPECT_FALSE(pool_.over());
  EXPECT_EQ(memory_.created(), 1u);
  EXPECT_FALSE(pool_.begin_ahead().valid());
  pool_.put(used);
  pool_.validate();
}

TEST_F(FramePoolTest, AFrameThatCannotBeMadeAheadLowersTheLimit) {
  const FrameIndex used = pool_.take();
  pool_.end_ahead(pool_.begin_ahead(), Status::kNoMemory);
  EXPECT_EQ(pool_.created(), 1u);
  EXPECT_EQ(pool_.limit(), FramePool::kFramesMin);
  pool_.put(used);
  pool_.validate();
}

TEST_F(FramePoolTest, AShrinkingLimitDestroysFreeFramesAtOnceAndOthersAsTheyReturn) {
  std::vector<FrameIndex> frames;
  for (int i = 0; i < 6; ++i) frames.push_back(pool_.take());
  pool_.put(frames.back());
  frames.pop_back();
  pool_.set_limit(3);
  EXPECT_EQ(pool_.created(), 5u);
  EXPECT_EQ(memory_.created(), 5u);
  EXPECT_TRUE(pool_.over());
  EXPECT_FALSE(pool_.take().valid());
  pool_.put(frames[0]);
  pool_.put(frames[1]);
  EXPECT_FALSE(pool_.over());
  EXPECT_EQ(memory_.created(), 3u);
  pool_.put(frames[2]);
  EXPECT_EQ(pool_.free(), 1u);
  pool_.set_limit(100);
  EXPECT_EQ(pool_.limit(), 8u);
  EXPECT_EQ(pool_.room(), 5u);
  EXPECT_EQ(pool_.created_peak(), 6u);
  pool_.validate();
}

TEST_F(FramePoolTest, TheLimitIsAtLeastOne) {
  pool_.set_limit(0);
  EXPECT_TRUE(pool_.take().valid());
  EXPECT_FALSE(pool_.take().valid());
}

TEST_F(FramePoolTest, GoesOnWithWhatTheSystemGives) {
  SimMemory memory({64, 16, 16, 1}, plan_, nth_, log_);
  FramePool pool(memory, 16);
  plan_.frames_available = 10;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pool.take().valid());
  EXPECT_FALSE(pool.take().valid());
  EXPECT_EQ(pool.limit(), 10u);
  EXPECT_EQ(pool.room(), 0u);
  // Told its budget again, it tries again.
  plan_.frames_available = 16;
  pool.set_limit(16);
  memory.set_frames_limit(16);
  EXPECT_TRUE(pool.take().valid());
  pool.validate();
}

TEST_F(FramePoolTest, KeepsAskingForTheLeastThatItNeeds) {
  plan_.frames_available = 2;
  EXPECT_TRUE(pool_.take().valid());
  EXPECT_TRUE(pool_.take().valid());
  EXPECT_FALSE(pool_.take().valid());
  EXPECT_EQ(pool_.limit(), FramePool::kFramesMin);
  plan_.frames_available = 8;
  EXPECT_TRUE(pool_.take().valid());
  pool_.validate();
}

TEST_F(FramePoolTest, ClaimsFramesForMemoryThatExists) {
  const FrameIndex made = pool_.take();
  const FrameIndex claimed = pool_.claim();
  EXPECT_NE(made, claimed);
  EXPECT_EQ(pool_.created(), 2u);
  EXPECT_EQ(memory_.created(), 1u);
  pool_.set_limit(2);
  EXPECT_FALSE(pool_.claim().valid());
  pool_.put(made);
  EXPECT_EQ(pool_.claim(), made);  // whose own memory was given up
  EXPECT_EQ(memory_.created(), 0u);
  pool_.forget(made);
  pool_.forget(claimed);
  EXPECT_EQ(pool_.created(), 0u);
  pool_.validate();
}

TEST_F(FramePoolTest, ASystemWithoutAnyMemoryLeavesTheLimit) {
  plan_.frames_available = 0;
  EXPECT_FALSE(pool_.take().valid());
  EXPECT_EQ(pool_.limit(), 8u);
}

}  // namespace
}  // namespace ebb
