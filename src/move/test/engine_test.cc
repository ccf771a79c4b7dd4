// The engine when flash works: eviction, rescue, clean copies, orphans, pins.
#include <gtest/gtest.h>

#include "engine_fixture.h"

namespace ebb {
namespace {

using enum BlockState;
using EngineTest = EngineFixture;

TEST_F(EngineTest, FramesComeAsBlocksAreTouched) {
  make(4, 8);
  retain(0, 3);
  fault(1);
  EXPECT_EQ(state(1), kResident);
  EXPECT_EQ(state(0), kUntouched);
  EXPECT_EQ(memory_->created(), 1u);
  engine_->populate({BlockIndex(0), 3});
  EXPECT_EQ(table_->count(kResident), 3u);
}

TEST_F(EngineTest, TheLeastRecentlyUsedLeavesAndComesBackWhole) {
  make(4, 8);
  fill_first(8);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(state(i), kOnFlash) << i;
  for (std::uint32_t i = 0; i < 8; ++i) {
    fetch(i);
    ASSERT_EQ(state(i), kResident);
    EXPECT_TRUE(holds(i, i)) << i;
  }
  EXPECT_EQ(engine_->counters().lost, 0u);
}

TEST_F(EngineTest, ARescueBeforeSubmissionIsAtOnce) {
  make_full(8, 8);
  retain(9);
  want(9);
  ASSERT_EQ(state(0), kEvicting);
  ASSERT_TRUE(engine_->has_requests());
  engine_->want(BlockIndex(0));  // nobody has seen the write yet
  EXPECT_TRUE(here(0, 0));
  EXPECT_EQ(extents_->used(), engine_->in_flight());
  EXPECT_EQ(engine_->counters().rescues, 1u);
  engine_->validate();
}

TEST_F(EngineTest, ARescueAfterSubmissionWaitsForTheWriteAndKeepsTheCopy) {
  make_full(8, 8);
  retain(9);
  want(9);
  take();
  ASSERT_EQ(state(0), kEvicting);
  engine_->want(BlockIndex(0));
  EXPECT_EQ(state(0), kEvicting);
  EXPECT_TRUE(engine_->pending(BlockIndex(0)));
  use(0);
  complete(request_of(0));
  EXPECT_TRUE(here(0, 0));
  EXPECT_TRUE(block(0).extent.valid());  // what was written need not be written again
  EXPECT_EQ(engine_->counters().rescues, 1u);
  finish();
  EXPECT_EQ(state(9), kResident);
}

TEST_F(EngineTest, AFaultDoesNotTakeBackAFrameThatSomebodyWaitsFor) {
  make_full(8, 16);
  evict(0, 9);
  fault(0);  // its frame is on its way to block 9
  take();
  complete(request_of(0));
  EXPECT_EQ(state(9), kResident);
  EXPECT_NE(state(0), kResident);
  finish();
  EXPECT_TRUE(here(0, 0));
  EXPECT_EQ(memory_->waiting(), 0u);
}

TEST_F(EngineTest, ACleanBlockIsNotWrittenAgain) {
  make_with_one_away(4);
  fetch(0);
  const std::uint64_t evicted = engine_->counters().evicted;
  block(0).last_use = 0;
  fetch(1);
  EXPECT_EQ(state(0), kOnFlash);
  EXPECT_GE(engine_->counters().clean, 1u);
  EXPECT_LE(engine_->counters().evicted, evicted + 1);  // block 2 at most
  EXPECT_TRUE(comes_back(0, 0));
}

TEST_F(EngineTest, AWriteReplacesTheCopyInPlace) {
  make_with_one_away(4);
  const ExtentIndex extent = block(0).extent;
  fetch(0);
  write(0, 77);
  block(0).last_use = 0;
  fetch(1);
  EXPECT_EQ(block(0).extent, extent);
  EXPECT_TRUE(comes_back(0, 77));
}

TEST_F(EngineTest, ASnapshotKeepsItsCopies) {
  make_full(2, 4);
  std::vector<BlockIndex> stay;
  engine_->freeze(stay);
  EXPECT_TRUE(stay.empty());
  EXPECT_EQ(engine_->frozen(), 2u);
  EXPECT_EQ(table_->count(kResident), 0u);
  // Somebody waits for the second: it is written first.
  fault(1);
  pump();
  finish();
  EXPECT_EQ(engine_->owed(), 0u);
  EXPECT_EQ(table_->count(kResident), 2u);
  ASSERT_EQ(engine_->written().size(), 2u);
  EXPECT_EQ(engine_->written().front().frame, block(1).frame);
  for (const Engine::Written& written : engine_->written()) extents_->release(written.extent);
  engine_->forget_written();
  const ExtentIndex kept = block(0).extent;
  ASSERT_TRUE(kept.valid());
  extents_->retain(kept);
  write(0, 77);
  evict(0, 2);
  finish();
  EXPECT_EQ(state(0), kOnFlash);
  EXPECT_NE(block(0).extent, kept);
  EXPECT_EQ(stored_.at(kept.value())[0], std::byte{1});  // as it was
  extents_->release(kept);
  EXPECT_TRUE(comes_back(0, 77));
}

TEST_F(EngineTest, FreeingABlockOnItsWayOutFreesFrameAndExtent) {
  for (const bool submitted : {false, true}) {
    make_full(2, 4);
    evict(0, 2);
    if (submitted) take();
    release(0);
    EXPECT_EQ(state(0), kUntouched);
    pump();
    finish();
    EXPECT_EQ(state(2), kResident) << submitted;
    EXPECT_EQ(extents_->used(), block(1).extent.valid() ? 1u : 0u) << submitted;
    EXPECT_FALSE(block(0).extent.valid());
    EXPECT_EQ(memory_->waiting(), 0u);
  }
}

TEST_F(EngineTest, FreeingABlockOnItsWayInFreesFrameAndExtent) {
  for (const bool submitted : {false, true}) {
    make_with_one_away(4);
    release(1);
    retain(1);
    want(0);
    ASSERT_EQ(state(0), kFetching);
    if (submitted) take();
    release(0);
    EXPECT_EQ(state(0), kUntouched);
    finish();
    EXPECT_EQ(extents_->used(), 0u) << submitted;
    EXPECT_EQ(frames_->free() + engine_->dead_resident() + table_->count(kResident), 2u);
    // The block can be used again while its orphan is still under way, and after it.
    fill(0);
    EXPECT_TRUE(holds(0, 0));
  }
}

TEST_F(EngineTest, DeadBlocksLeaveFirstAndUnwritten) {
  make_full(2, 4);
  release(1);
  EXPECT_EQ(engine_->dead_resident(), 1u);
  fill(2);
  EXPECT_EQ(state(0), kResident);
  EXPECT_EQ(state(1), kUntouched);
  EXPECT_EQ(engine_->counters().evicted, 0u);
}

TEST_F(EngineTest, ADeadBlockThatIsAllocatedAgainKeepsItsFrame) {
  make(2, 4);
  fill(0);
  release(0);
  retain(0);
  EXPECT_EQ(engine_->dead_resident(), 0u);
  EXPECT_EQ(state(0), kResident);
  engine_->validate();
}

TEST_F(EngineTest, RunningLaunchesKeepTheirBlocksUnlessSomebodyFaults) {
  make_full(2, 4);
  engine_->set_pinned_from(1);
  retain(2);
  want(2);
  finish();
  EXPECT_EQ(state(0), kResident);
  EXPECT_EQ(state(1), kResident);
  EXPECT_FALSE(engine_->pending(BlockIndex(2)));  // nothing can leave: it will have to fault
  fetch(2);
  EXPECT_EQ(state(2), kResident);
  EXPECT_EQ(state(0), kOnFlash);
}

TEST_F(EngineTest, PinnedBlocksStayAlsoWhenSomebodyFaults) {
  make_full(2, 4);
  engine_->pin(BlockIndex(0));
  fill(2);
  fill(3);
  EXPECT_EQ(state(0), kResident);
  EXPECT_EQ(state(2), kOnFlash);
  engine_->unpin(BlockIndex(0));
  fill(1);
  fill(2);
  EXPECT_EQ(state(0), kOnFlash);
  engine_->validate();
}

// On a GPU each change of a mapping is dear: what is dead keeps its place while there is room for new frames.
TEST_F(EngineTest, WherePinnedBlocksStayNewFramesComeBeforeThoseOfDeadBlocks) {
  make(4, 8, {.in_flight = 4, .keep_pinned = true});
  fill_first(3);
  release(0, 2);
  fill(10);
  EXPECT_EQ(memory_->created(), 4u);
  EXPECT_EQ(state(0), kResident);
  EXPECT_EQ(state(1), kResident);
  EXPECT_EQ(engine_->dead_resident(), 2u);
  // Without room the dead ones give theirs, before anything that lives leaves.
  fill(11);
  fill(12);
  EXPECT_EQ(memory_->created(), 4u);
  EXPECT_EQ(state(0), kUntouched);
  EXPECT_EQ(state(1), kUntouched);
  EXPECT_EQ(engine_->dead_resident(), 0u);
  EXPECT_TRUE(here(2, 2));
  EXPECT_TRUE(here(10, 10));
  EXPECT_EQ(engine_->counters().evicted, 0u);
}

TEST_F(EngineTest, ElsewhereDeadBlocksGiveTheirFramesBeforeNewOnesAreMade) {
  make(4, 8);
  fill_first(3);
  release(0, 2);
  fill(10);
  fill(11);
  EXPECT_EQ(memory_->created(), 3u);
  EXPECT_EQ(engine_->dead_resident(), 0u);
  fill(12);
  EXPECT_EQ(memory_->created(), 4u);
  EXPECT_TRUE(here(2, 2));
}

TEST_F(EngineTest, BusyBlocksDoNotHideThoseThatCanLeave) {
  make_full(40, 40);
  for (std::uint32_t i = 0; i < 30; ++i) memory_->pin(BlockIndex(i));
  fill(50);
  EXPECT_EQ(state(50), kResident);
  EXPECT_EQ(state(30), kOnFlash);
  EXPECT_FALSE(engine_->starved().valid());
}

// Where the budget wants room too, it begins anew with those that cannot leave, each time.
TEST_F(EngineTest, AboveTheBudgetBusyBlocksDoNotHideOthersFromWhoAdopts) {
  make_full(40, 40);
  engine_->set_pinned_from(1);
  for (std::uint32_t i = 0; i < 30; ++i) memory_->pin(BlockIndex(i));
  frames_->set_limit(39);
  retain(50);
  engine_->set_outside({BlockIndex(50), 1}, true);
  bool adopted = false;
  for (int turn = 0; turn < 4 && !adopted; ++turn) {
    use(50);
    adopted = engine_->adopt(BlockIndex(50));
    pump();
    finish();
  }
  EXPECT_TRUE(adopted);
}

TEST_F(EngineTest, AboveTheBudgetBusyBlocksDoNotHideOthersFromWhoWaits) {
  make_full(40, 40);
  fill(50);
  ASSERT_EQ(state(0), kOnFlash);
  engine_->set_pinned_from(1);
  for (std::uint32_t i = 2; i < 30; ++i) memory_->pin(BlockIndex(i));
  frames_->set_limit(30);
  for (int turn = 0; turn < 4 && state(0) != kResident; ++turn) {
    use(0);
    engine_->wait_for(BlockIndex(0));
    want(0);
    finish();
  }
  EXPECT_TRUE(here(0, 0));
}

TEST_F(EngineTest, WhenNothingCanLeaveAFaultStarvesUntilItIsGivenUp) {
  make_full(2, 4);
  memory_->pin(BlockIndex(0));
  memory_->pin(BlockIndex(1));
  retain(2);
  fault(2);
  EXPECT_EQ(engine_->starved(), BlockIndex(2));
  pump();
  EXPECT_EQ(engine_->starved(), BlockIndex(2));
  engine_->fail_starved();
  EXPECT_TRUE(memory_->failed(BlockIndex(2)));
  EXPECT_FALSE(engine_->starved().valid());
  EXPECT_TRUE(engine_->idle());
  memory_->unpin_all();
  fetch(2);
  EXPECT_EQ(state(2), kResident);
}

TEST_F(EngineTest, AStarvingFaultIsServedWhenPagesAreLetGo) {
  make_full(2, 4);
  memory_->pin(BlockIndex(0));
  memory_->pin(BlockIndex(1));
  retain(2);
  fault(2);
  memory_->unpin_all();
  pump();
  finish();
  EXPECT_EQ(state(2), kResident);
}

TEST_F(EngineTest, MoreThanMayBeInFlightWaitsItsTurn) {
  make(8, 32, {2, 0, 0});
  fill_first(16);
  for (std::uint32_t i = 0; i < 4; ++i) {
    use(i);
    engine_->want(BlockIndex(i));
  }
  pump();
  EXPECT_LE(engine_->in_flight(), 2u);
  finish();
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(state(i) == kResident && holds(i, i)) << i;
}

TEST_F(EngineTest, TheReserveIsRestoredWithoutBeingAsked) {
  make(8, 32, {4, 2, 0});
  fill_first(8);
  pump();
  finish();
  EXPECT_GE(frames_->free() + frames_->room(), 2u);
}

TEST_F(EngineTest, MoreAndMoreOfARunOfFaultsIsReadAhead) {
  make(16, 32, {8, 0, 4});
  fill_first(32);
  for (std::uint32_t i = 16; i < 32; ++i) release(i);
  fetch(0);
  EXPECT_EQ(state(1), kOnFlash) << "nothing goes on yet";
  fetch(1);
  EXPECT_EQ(state(2), kResident);
  EXPECT_EQ(state(3), kReady) << "its touch tells that the run has come there";
  EXPECT_EQ(state(4), kOnFlash);
  fetch(3);
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(state(i), i == 6 ? kReady : kResident) << i;
  EXPECT_EQ(state(8), kOnFlash);
  EXPECT_EQ(engine_->scattered(), 1u);
}

TEST_F(EngineTest, WhatIsHeldOfARunIsLetGoWhenOthersAreFollowed) {
  make(16, 64, {8, 0, 4});
  fill_first(60);
  fetch(0);
  fetch(1);
  ASSERT_EQ(state(3), kReady);
  for (std::uint32_t run = 0; run < ReadAhead::kRuns; ++run) {
    ASSERT_EQ(state(3), kReady) << run;
    fetch(8 + 3 * run);
  }
  EXPECT_NE(state(3), kReady);
}

TEST_F(EngineTest, AHeldBlockBecomesReadyAndItsTouchAttachesIt) {
  make_with_one_away(4);
  release(1);
  want(0);
  engine_->hold(BlockIndex(0));
  finish();
  ASSERT_EQ(state(0), kReady);
  EXPECT_FALSE(memory_->present(BlockIndex(0)));
  fault(0);
  EXPECT_TRUE(here(0, 0));
}

TEST_F(EngineTest, ABlockThatSomebodyWaitsForIsNotHeldBack) {
  make_with_one_away(4);
  release(1);
  fault(0);
  engine_->hold(BlockIndex(0));
  finish();
  EXPECT_EQ(state(0), kResident);
  EXPECT_EQ(memory_->waiting(), 0u);
}

TEST_F(EngineTest, HeldBlocksLeaveWhenNothingElseCan) {
  make_full(2, 4);
  engine_->hold(BlockIndex(0));
  engine_->hold(BlockIndex(1));
  ASSERT_EQ(table_->count(kReady), 2u);
  fill(2);
  EXPECT_EQ(state(2), kResident);
  EXPECT_TRUE(comes_back(0, 0));
}

}  // namespace
}  // namespace ebb
