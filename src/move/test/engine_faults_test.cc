// The engine when flash fails: nothing is lost that was in memory, and what cannot be read back is never handed out.
#include <gtest/gtest.h>

#include "engine_fixture.h"

namespace ebb {
namespace {

using enum BlockState;
using EngineFaultsTest = EngineFixture;

TEST_F(EngineFaultsTest, AFailedWriteIsTriedElsewhere) {
  make_full(2, 4);
  evict(0, 2);
  take();
  const ExtentIndex first = requests_.at(request_of(0)).extent;
  complete(request_of(0), Status::kIoError);
  take();
  EXPECT_NE(requests_.at(request_of(0)).extent, first);
  finish();
  EXPECT_EQ(state(0), kOnFlash);
  EXPECT_TRUE(comes_back(0, 0));
  EXPECT_EQ(engine_->counters().io_errors, 1u);
}

TEST_F(EngineFaultsTest, AWriteThatKeepsFailingLeavesTheBlockInMemory) {
  make_full(2, 16);
  memory_->pin(BlockIndex(1));
  evict(0, 2);
  for (int i = 0; i < 3; ++i) {
    take();
    ASSERT_EQ(state(0), kEvicting);
    complete(0, Status::kIoError);
  }
  // Tried three times, it came back; as somebody still waits, it is tried again, until flash is taken to be broken.
  while (take() > 0) complete(0, Status::kIoError);
  EXPECT_TRUE(engine_->flash_failing());
  EXPECT_TRUE(here(0, 0));
  EXPECT_EQ(engine_->starved(), BlockIndex(2));
  EXPECT_EQ(extents_->used(), 0u);
  EXPECT_EQ(engine_->counters().lost, 0u);
}

TEST_F(EngineFaultsTest, AFailedWriteInPlaceDropsTheSpoiltCopy) {
  make_with_one_away(16);
  fetch(0);
  write(0, 77);
  block(0).last_use = 0;
  const ExtentIndex spoilt = block(0).extent;
  fault(1);
  take();
  complete(request_of(0), Status::kIoError);
  finish();
  EXPECT_NE(block(0).extent, spoilt);
  EXPECT_TRUE(comes_back(0, 77));
}

TEST_F(EngineFaultsTest, AFailedWriteBesideASharedCopyDropsTheOutdatedOne) {
  make_with_one_away(16);
  fetch(0);
  const ExtentIndex kept = block(0).extent;
  extents_->retain(kept);  // a snapshot
  write(0, 77);
  std::vector<BlockIndex> stay;
  engine_->freeze(stay);
  pump();
  take();
  for (std::size_t i = requests_.size(); i > 0; --i) complete(i - 1, Status::kNoSpace);
  // A second child must not take the copy of the first for the block's content.
  EXPECT_EQ(state(0), kResident);
  EXPECT_FALSE(block(0).extent.valid());
  extents_->release(kept);
  engine_->validate();
}

TEST_F(EngineFaultsTest, WhatStaysAtAFreezeLeavesNoOutdatedCopy) {
  make_with_one_away(16);
  fetch(0);
  write(0, 77);
  memory_->pin(BlockIndex(0));
  std::vector<BlockIndex> stay;
  engine_->freeze(stay);
  EXPECT_EQ(stay, std::vector<BlockIndex>{BlockIndex(0)});
  EXPECT_FALSE(block(0).extent.valid());
  pump();
  finish();
  EXPECT_TRUE(holds(0, 77));
  engine_->validate();
}

TEST_F(EngineFaultsTest, ARescueWhoseWriteFailsKeepsTheData) {
  make_full(8, 8);
  retain(9);
  want(9);
  take();
  ASSERT_EQ(state(0), kEvicting);
  engine_->want(BlockIndex(0));
  use(0);
  complete(request_of(0), Status::kIoError);
  EXPECT_EQ(state(0), kResident);
  EXPECT_FALSE(block(0).extent.valid());
  EXPECT_TRUE(holds(0, 0));
}

TEST_F(EngineFaultsTest, FullFlashStopsEvictionAndSpareCopiesGiveWay) {
  make_with_one_away(1);  // block 0 has the only extent
  EXPECT_EQ(state(2), kResident);
  fault(0);
  EXPECT_TRUE(engine_->flash_full());
  EXPECT_EQ(engine_->starved(), BlockIndex(0));
  release(1);  // somebody frees a block
  pump();
  finish();
  EXPECT_EQ(state(0), kResident);
  EXPECT_FALSE(engine_->flash_full());
  // Block 0 is in memory and on flash: its copy gives way to whoever must leave.
  fill(1);
  EXPECT_EQ(state(1), kResident);
}

TEST_F(EngineFaultsTest, AnArrivalEndsAFullFlash) {
  make(3, 2);
  fill_first(5);
  ASSERT_EQ(extents_->free(), 0u);
  release(4);
  fault(0);  // into the frame of block 4: its copy becomes a spare one
  finish();
  ASSERT_EQ(state(0), kResident);
  memory_->pin(BlockIndex(0));
  fill(5);
  EXPECT_EQ(state(5), kResident);
}

TEST_F(EngineFaultsTest, MoreExtentsEndAFullFlash) {
  make_with_one_away(1);
  fault(0);
  EXPECT_TRUE(engine_->flash_full());
  // As the driver does: it cannot make more here, but says so.
  engine_->extents_added();
  EXPECT_FALSE(engine_->flash_full());
  pump();
  EXPECT_TRUE(engine_->flash_full());
  engine_->fail_starved();
}

TEST_F(EngineFaultsTest, ReadErrorsThatPassAreTriedAgain) {
  for (const Status status : {Status::kIoError, Status::kCorrupt}) {
    make_with_one_away(4);
    release(1);
    fault(0);
    for (int i = 0; i < 2; ++i) {
      take();
      complete(request_of(0), status);
      EXPECT_FALSE(memory_->present(BlockIndex(0)));
    }
    finish();
    EXPECT_TRUE(holds(0, 0));
    EXPECT_EQ(engine_->counters().lost, 0u);
  }
}

TEST_F(EngineFaultsTest, WhatCannotBeReadIsLostLoudlyAndNeverAttached) {
  make_with_one_away(4);
  release(1);
  const ExtentIndex extent = block(0).extent;
  stored_.at(extent.value())[7] ^= std::byte{4};
  fetch(0);
  EXPECT_EQ(state(0), kLost);
  EXPECT_TRUE(memory_->failed(BlockIndex(0)));
  EXPECT_FALSE(memory_->present(BlockIndex(0)));
  EXPECT_EQ(memory_->waiting(), 0u);
  EXPECT_EQ(engine_->lost_block(), BlockIndex(0));
  EXPECT_EQ(engine_->counters().corrupt, 1u);
  // Its extent is never used again; every further touch fails; freeing it makes the address good for new content.
  EXPECT_EQ(extents_->used(), 0u);
  EXPECT_EQ(extents_->free(), 3u);
  const std::uint64_t failed = memory_->counters().failed;
  fault(0);
  EXPECT_EQ(memory_->counters().failed, failed + 1);
  release(0);
  fill(0);
  EXPECT_TRUE(holds(0, 0));
}

TEST_F(EngineFaultsTest, ALaunchDoesNotWaitForALostBlock) {
  make_with_one_away(4);
  release(1);
  stored_.at(block(0).extent.value())[0] ^= std::byte{1};
  want(0);
  EXPECT_TRUE(engine_->pending(BlockIndex(0)));
  finish();
  EXPECT_FALSE(engine_->pending(BlockIndex(0)));
  EXPECT_EQ(state(0), kLost);
}

TEST_F(EngineFaultsTest, TransfersAllTakenByEvictionsLeaveNoneForTheFetch) {
  // A frame comes free of a dead block while every transfer has just become an eviction.
  make(4, 32, {2, 0, 0});
  fill_first(12);
  plan_[Fault::kBusy] = {1, 2};
  for (std::uint32_t round = 0; round < 200; ++round) {
    const std::uint32_t index = round % 12;
    if (round % 5 == 0 && block(index).live > 0) {
      release(index);
      retain(index);
    }
    if (!memory_->present(BlockIndex(index))) fault(index);
    engine_->want(BlockIndex((index + 3) % 12));
    engine_->want(BlockIndex((index + 7) % 12));
    pump();
    if (round % 3 != 0) finish();
  }
  plan_ = FaultPlan();
  pump();
  finish();
  engine_->validate();
}

}  // namespace
}  // namespace ebb
