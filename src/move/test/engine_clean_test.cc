// Cleaning: blocks that are written out while they stay, so that they leave without a write.
#include <gtest/gtest.h>

#include <deque>

#include "base/rng.h"
#include "engine_fixture.h"

namespace ebb {
namespace {

using enum BlockState;

// Evicts by recency, and has named blocks cleaned.
class Cleans final : public Policy {
 public:
  std::string_view name() const override { return "cleans"; }
  bool listens() const override { return true; }
  Tier destination(BlockIndex) const override { return Tier::kFlash; }
  BlockIndex clean(const PageTable&, Tier below, std::uint64_t) override {
    if (below != Tier::kFlash || named.empty()) return BlockIndex::none();
    const BlockIndex block = named.front();
    named.pop_front();
    return block;
  }
  std::deque<BlockIndex> named;
};

class CleanTest : public EngineFixtureWith<Cleans> {
 protected:
  // Not one of the last four that were faulted for: these are pinned.
  void clean(std::uint32_t index) {
    own_->named.emplace_back(index);
    pump();
  }
};

TEST_F(CleanTest, ItStaysAndThenLeavesWithoutAWrite) {
  make_full(8, 16);
  clean(0);
  EXPECT_EQ(state(0), kEvicting);
  finish();
  EXPECT_TRUE(here(0, 0));
  EXPECT_EQ(engine_->counters().evicted, 1u);
  evict(0, 9);
  finish();
  EXPECT_EQ(state(0), kOnFlash);
  EXPECT_EQ(engine_->counters().clean, 1u);  // and nothing was written
  EXPECT_TRUE(comes_back(0, 0));
}

TEST_F(CleanTest, WhatChangesAfterwardsIsWrittenAgain) {
  make_full(8, 16);
  clean(0);
  finish();
  write(0, 77);
  evict(0, 9);
  finish();
  EXPECT_EQ(engine_->counters().clean, 0u);
  EXPECT_TRUE(comes_back(0, 77));
}

TEST_F(CleanTest, ATouchMeanwhileWaitsForTheWrite) {
  make_full(8, 16);
  clean(0);
  take();
  engine_->want(BlockIndex(0));
  EXPECT_TRUE(engine_->pending(BlockIndex(0)));
  fault(0);
  EXPECT_EQ(memory_->waiting(), 1u);
  finish();
  EXPECT_EQ(state(0), kResident);
  EXPECT_EQ(memory_->waiting(), 0u);
  EXPECT_TRUE(holds(0, 0));
}

TEST_F(CleanTest, FreedMeanwhileItGivesUpFrameAndExtent) {
  make_full(8, 16);
  clean(0);
  take();
  release(0);
  finish();
  EXPECT_EQ(extents_->used(), 0u);
  EXPECT_EQ(table_->count(kResident), 7u);
}

TEST_F(CleanTest, AFailedWriteLosesNothing) {
  make_full(8, 16);
  clean(0);
  take();
  complete(0, Status::kIoError);
  finish();
  EXPECT_TRUE(here(0, 0));
}

TEST_F(CleanTest, ItGivesWayToWhatHasToLeave) {
  make_full(8, 3);
  engine_->set_pinned_from(block(0).last_use);
  clean(0);
  EXPECT_EQ(state(0), kResident);  // in use
  engine_->set_pinned_from(~0ull);
  evict(1, 9);
  clean(2);
  EXPECT_EQ(state(2), kResident);  // the lane is busy, and somebody waits
  finish();
  for (std::uint32_t i = 10; extents_->free(Tier::kFlash) > 0; ++i) fill(i);
  const std::uint64_t written = engine_->counters().evicted;
  for (std::uint32_t i = 0; i < kBlocks; ++i) own_->named.emplace_back(i);
  finish();
  EXPECT_EQ(engine_->counters().evicted, written);  // the last places are for what leaves
}

// Whatever is cleaned, and whatever happens to it meanwhile: no content is lost.
TEST_F(CleanTest, AtAnyTime) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    make(8, 24, {4, 1, 1});
    std::map<std::uint32_t, std::uint32_t> content;
    for (int step = 0; step < 200; ++step) {
      const auto index = static_cast<std::uint32_t>(rng.below(16));
      switch (rng.below(6)) {
        case 0:
        case 1: own_->named.emplace_back(static_cast<std::uint32_t>(rng.below(kBlocks))); break;
        case 2:
          if (!requests_.empty()) complete(rng.below(requests_.size()));
          break;
        case 3:
          if (content.erase(index) > 0) release(index);
          break;
        default:
          if (!content.contains(index)) retain(index);
          if (state(index) != kResident) fault(index);
          use(index);
          finish();
          ASSERT_EQ(state(index), kResident);
          if (content.contains(index)) {
            ASSERT_TRUE(holds(index, content[index]));
          }
          if (!content.contains(index) || rng.chance(1, 2)) {
            content[index] = static_cast<std::uint32_t>(rng.below(200));
            write(index, content[index]);
          }
      }
      pump();
      take();
    }
  }
}

}  // namespace
}  // namespace ebb
