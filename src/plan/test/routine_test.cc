// Routine and Slots: what is known of a program in which no two iterations are alike.
#include "plan/routine/routine.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

class SlotsTest : public testing::Test {
 protected:
  void iterate(const std::vector<std::uint64_t>& keys) {
    for (const std::uint64_t key : keys) slots_.enter(key);
    slots_.validate();
    slots_.step();
    slots_.validate();
  }
  std::vector<std::uint64_t> order(std::uint64_t keys) const {
    std::vector<std::uint64_t> all;
    for (Slots::Slot slot = slots_.first(); slot != Slots::kNone; slot = slots_.next(slot)) {
      for (std::uint64_t key = 1; key <= keys; ++key) {
        if (slots_.find(key) == slot) all.push_back(key);
      }
    }
    return all;
  }
  double chance(std::uint64_t key) const { return slots_.chance(slots_.find(key)); }

  Slots slots_;
};

TEST_F(SlotsTest, IterationsAreMergedInTheOrderOfTheProgram) {
  iterate({1, 2, 5});
  iterate({1, 4, 5});
  iterate({1, 2, 3, 4, 5});
  EXPECT_EQ(order(5), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(SlotsTest, HowOftenASlotRunsIsHowLikelyItIs) {
  for (int i = 0; i < 40; ++i)
    iterate(i % 4 == 0 ? std::vector<std::uint64_t>{1, 2, 3} : std::vector<std::uint64_t>{1, 3});
  EXPECT_GT(chance(1), 0.99);
  EXPECT_NEAR(chance(2), 0.25, 0.1);
  EXPECT_LT(slots_.when(slots_.find(3)), 2 * Slots::kTick) << "what is unlikely takes little time";
  slots_.enter(1);
  EXPECT_EQ(chance(1), 0) << "it has run";
  slots_.enter(3);
  EXPECT_EQ(chance(2), 0) << "it was passed over";
}

TEST_F(SlotsTest, ASlotRunsIfItsGateHas) {
  const auto branch = [&](std::uint64_t way) {
    slots_.enter(1);
    const Slots::Slot gate = slots_.enter(10 + way);
    slots_.enter(2);
    slots_.learn_gate(slots_.enter(20 + way), gate);
    slots_.validate();
  };
  for (std::uint64_t i = 0; i < 24; ++i) {
    branch(i % 3);
    slots_.step();
  }
  EXPECT_NEAR(chance(20), 1 / 3.0, 0.15);
  slots_.enter(1);
  slots_.enter(11);
  EXPECT_GT(chance(21), 0.99);
  slots_.enter(2);
  EXPECT_EQ(chance(20), 0) << "its gate was passed over";
  EXPECT_GT(chance(21), 0.99);
}

TEST_F(SlotsTest, WhatDoesNotDependOnItsGateComesAsOftenAsItDid) {
  for (std::uint64_t i = 0; i < 16; ++i) {
    const Slots::Slot gate = slots_.enter(10 + i % 4);
    slots_.learn_gate(slots_.enter(2), gate);
    slots_.step();
  }
  EXPECT_GT(chance(2), 0.99);
}

TEST_F(SlotsTest, WhatHasNotRunForLongIsForgotten) {
  iterate({1, 2, 3});
  for (int i = 0; i < 100; ++i) iterate({1, 3});
  EXPECT_EQ(slots_.find(2), Slots::kNone);
  iterate({1, 2, 3});
  EXPECT_NE(slots_.find(2), Slots::kNone);
}

TEST_F(SlotsTest, AnyOrderIsConsistent) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    slots_ = {};
    for (int iteration = 0; iteration < 30; ++iteration) {
      std::vector<std::uint64_t> keys(40);
      for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = i + 1;
      for (std::uint64_t swaps = rng.below(20); swaps-- > 0;) std::swap(keys[rng.below(40)], keys[rng.below(40)]);
      keys.resize(rng.between(1, 40));
      Slots::Slot before = Slots::kNone;
      for (const std::uint64_t key : keys) {
        const Slots::Slot slot = slots_.enter(key);
        if (rng.chance(1, 2)) slots_.learn_gate(slot, before);
        if (rng.chance(1, 2)) before = slot;
        ASSERT_TRUE(slots_.has_run(slot) && slots_.current() == slot);
      }
      for (Slots::Slot slot = slots_.first(); slot != Slots::kNone; slot = slots_.next(slot)) {
        ASSERT_TRUE(slots_.chance(slot) >= 0 && slots_.chance(slot) <= 1 && slots_.usual(slot) <= 1);
      }
      slots_.validate();
      slots_.step();
    }
  }
}

// A layer of experts, of which an iteration uses one: forward, backward, and the optimizer on what has a gradient. A
// tensor is a block.
class ExpertsTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kExperts = 6, kFrames = 64;
  static constexpr std::uint64_t kBlock = 1 << 21;

  ExpertsTest() : table_(4096, kFrames) {
    routine_.budget(kBlock, kFrames);
    routine_.lasts(kRouter, block_of(kRouter));
    for (std::uint32_t i = 0; i < kExperts; ++i) {
      routine_.lasts(weight(i), block_of(weight(i)));
      routine_.lasts(state(i), block_of(state(i)));
      routine_.lasts(square(i), block_of(square(i)));
    }
  }
  static constexpr std::uint64_t kRouter = 1;
  static std::uint64_t weight(std::uint32_t expert) { return 10 + expert; }
  static std::uint64_t state(std::uint32_t expert) { return 20 + expert; }
  static std::uint64_t square(std::uint32_t expert) { return 30 + expert; }
  static BlockRange block_of(std::uint64_t serial) { return {BlockIndex(static_cast<std::uint32_t>(serial)), 1}; }

  std::uint64_t make() {
    const std::uint64_t serial = ++serial_;
    routine_.allocated(serial, kBlock, block_of(serial));
    return serial;
  }
  void launch(std::uint64_t op, const std::vector<std::uint64_t>& tensors) {
    std::vector<Touch> touches;
    for (const std::uint64_t each : tensors) touches.push_back({each, kBlock, block_of(each), true});
    routine_.launched(op, touches);
    routine_.ran(1000000);
  }
  void forward(std::uint32_t expert) {
    launch(1, {kRouter});
    input_ = make();
    launch(2, {input_, weight(expert)});
    output_ = make();
    launch(3, {output_});
  }
  void backward(std::uint32_t expert) {
    launch(4, {output_, weight(expert)});
    gradient_ = make();
    launch(5, {input_, gradient_});
    launch(6, {kRouter});
  }
  void optimize(std::uint32_t expert) {
    launch(7, {weight(expert), gradient_, state(expert)});
    launch(8, {square(expert)});
    for (const std::uint64_t each : {input_, output_, gradient_}) routine_.freed(each);
    routine_.step(1e6);
  }
  void train(int iterations, std::uint32_t expert_count = kExperts) {
    for (int i = 0; i < iterations; ++i) {
      const auto expert = static_cast<std::uint32_t>(rng_.below(expert_count));
      forward(expert);
      backward(expert);
      optimize(expert);
    }
  }
  void send_out(std::uint64_t serial) {
    const BlockIndex block = block_of(serial).first;
    table_[block].extent = ExtentIndex(block.value());
    static_cast<void>(table_.become(block, BlockState::kOnFlash));
  }
  std::uint64_t next_use(std::uint64_t serial) const { return routine_.next_use(block_of(serial).first); }

  Routine routine_;
  PageTable table_;
  Rng rng_{7};
  std::uint64_t serial_ = 100;
  std::uint64_t input_ = 0, output_ = 0, gradient_ = 0;
};

TEST_F(ExpertsTest, WhatTheForwardPassChoseIsNeededAndTheRestIsNot) {
  train(40);
  forward(2);
  for (std::uint32_t other = 0; other < kExperts; ++other) {
    if (other == 2) continue;
    EXPECT_LT(next_use(weight(2)), next_use(weight(other)));
    EXPECT_LT(next_use(state(2)), next_use(state(other)));
    EXPECT_LT(next_use(state(2)), next_use(weight(other)));
  }
  EXPECT_LT(next_use(weight(2)), next_use(state(2))) << "the backward pass is before the optimizer";
  EXPECT_LT(next_use(output_), next_use(input_)) << "and goes through it from the end";
}

TEST_F(ExpertsTest, OnlyWhatIsLikelyIsFetched) {
  train(40);
  for (std::uint32_t i = 0; i < kExperts; ++i) send_out(state(i));
  EXPECT_FALSE(routine_.ahead(table_).block.valid()) << "any may be next, each is unlikely";
  forward(4);
  EXPECT_EQ(routine_.ahead(table_).block, block_of(state(4)).first);
  static_cast<void>(table_.become(block_of(state(4)).first, BlockState::kFetching, FrameIndex(0)));
  EXPECT_FALSE(routine_.ahead(table_).block.valid());
}

TEST_F(ExpertsTest, WhatALaunchUsesAloneIsNeededAsWhatTheOneBeforeItUses) {
  train(40);
  for (std::uint32_t i = 0; i < kExperts; ++i) send_out(square(i));
  EXPECT_FALSE(routine_.ahead(table_).block.valid());
  forward(4);
  EXPECT_EQ(routine_.ahead(table_).block, block_of(square(4)).first);
}

TEST_F(ExpertsTest, WhatALaunchDidNotUseThisTimeIsNeededLater) {
  std::uint64_t used = 0, other = 0;
  for (int i = 0; i < 8; ++i) {
    launch(1, {kRouter});
    used = make();
    other = make();
    if (i == 7) break;
    launch(2, {used});
    for (std::uint32_t expert = 0; expert < kExperts; ++expert) launch(3, {weight(expert)});
    launch(4, {kRouter, used});
    for (const std::uint64_t each : {used, other}) routine_.freed(each);
    routine_.step(1e6);
  }
  const std::uint64_t now_needed = next_use(used);
  launch(2, {other});
  EXPECT_GE(next_use(used), now_needed + kExperts * Slots::kTick);
  EXPECT_LE(next_use(used), routine_.end());
}

TEST_F(ExpertsTest, ABlockIsNeededWhenWhatComesAndGoesInItComesAgain) {
  const auto come_and_go = [&] {
    routine_.allocated(90, kBlock / 2, block_of(weight(3)));
    routine_.freed(90);
  };
  train(40);
  forward(4);
  come_and_go();
  backward(4);
  const std::uint64_t alone = next_use(weight(3));
  come_and_go();
  const std::uint64_t soon = next_use(weight(3));
  EXPECT_LT(soon, alone) << "after as long as the backward pass took";
  optimize(4);
  EXPECT_EQ(next_use(weight(3)), soon);
  train(12, 1);
  EXPECT_GT(next_use(weight(3)), soon) << "it has not come";
}

TEST(VacanciesTest, WhatWasTakenAfterAPauseIsTakenAfterOneAgain) {
  Vacancies places;
  places.cover(16);
  const BlockRange blocks{BlockIndex(2), 3};
  places.taken(blocks, 10);
  places.left(blocks, 20);
  EXPECT_EQ(places.taken_at(BlockIndex(2)), Vacancies::kNever);
  places.taken(blocks, 50);
  EXPECT_EQ(places.taken_at(BlockIndex(2)), Vacancies::kNever) << "it is";
  places.left(blocks, 60);
  EXPECT_EQ(places.taken_at(BlockIndex(2)), 90u);
  EXPECT_EQ(places.taken_at(BlockIndex(4)), 90u);
  EXPECT_EQ(places.taken_at(BlockIndex(3)), Vacancies::kNever) << "it is nobody else's";
  EXPECT_EQ(places.taken_at(BlockIndex(99)), Vacancies::kNever);
}

TEST_F(ExpertsTest, WhatThereIsTimeForIsFetchedLater) {
  train(40);
  routine_.step(1e4);  // flash of 100 blocks a launch
  forward(4);
  send_out(state(4));
  EXPECT_FALSE(routine_.ahead(table_).block.valid());
  backward(4);
  EXPECT_EQ(routine_.ahead(table_).block, block_of(state(4)).first);
}

// As an optimizer's pass needs it, after a pass that needs nothing.
TEST_F(ExpertsTest, WhatIsNeededAtOnceIsPreparedForLongBefore) {
  constexpr int kLaunches = 40;
  std::vector<std::uint64_t> all;
  for (std::uint32_t i = 0; i < kExperts; ++i) all.insert(all.end(), {state(i), square(i)});
  const auto go_on = [&](int launches) {
    for (int i = 0; i < launches; ++i) launch(9, {kRouter});
  };
  for (int i = 0; i < 8; ++i) {
    go_on(kLaunches);
    launch(10, all);
    routine_.step(2e5);  // flash of 5 blocks a launch
  }
  go_on(1);
  send_out(all.back());
  EXPECT_FALSE(routine_.ahead(table_).block.valid()) << "for one block there is time";
  for (std::size_t i = 0; i + 1 < all.size(); ++i) send_out(all[i]);
  go_on(8);  // until it looks again
  Routine::Next next = routine_.ahead(table_);
  EXPECT_EQ(next.block, block_of(all.front()).first);
  EXPECT_FALSE(next.urgent);
  go_on(kLaunches - 10);
  next = routine_.ahead(table_);
  EXPECT_EQ(next.block, block_of(all.front()).first);
  EXPECT_TRUE(next.urgent);
}

TEST_F(ExpertsTest, ALaunchOnNothingOfATensorEndsNoSearch) {
  const Touch nothing{weight(1), 0, {block_of(weight(1)).first, 0}, true};
  for (int i = 0; i < 8; ++i) {
    launch(1, {kRouter});
    routine_.launched(9, {&nothing, 1});
    launch(10, {state(1)});
    routine_.step(1e6);
  }
  send_out(state(1));
  EXPECT_EQ(routine_.ahead(table_).block, block_of(state(1)).first);
}

// A batch is another tensor in each iteration, and no launch has made it.
TEST_F(ExpertsTest, WhatIsMadeBeforeTheFirstLaunchIsKnownAgain) {
  for (std::uint32_t i = 0; i <= 40; ++i) {
    const std::uint64_t batch = make();
    launch(2, {batch, weight(i % kExperts)});
    if (i == 40) break;
    launch(3, {batch});
    launch(7, {weight(i % kExperts), state(i % kExperts)});
    routine_.freed(batch);
    routine_.step(1e6);
  }
  for (std::uint32_t i = 0; i < kExperts; ++i) send_out(state(i));
  EXPECT_EQ(routine_.ahead(table_).block, block_of(state(40 % kExperts)).first);
}

TEST_F(ExpertsTest, WhatIsFetchedIsWorthItsUse) {
  train(40);
  forward(4);
  send_out(state(4));
  const Routine::Next next = routine_.ahead(table_);
  ASSERT_TRUE(next.block.valid());
  EXPECT_EQ(next_use(state(4)), std::min(next.when, next_use(state(4))));
}

TEST_F(ExpertsTest, AnExpertThatIsUsedMoreOftenIsWorthMore) {
  for (int i = 0; i < 20; ++i) {
    train(3, 1);
    train(1, 2);
  }
  EXPECT_LT(next_use(weight(0)), next_use(weight(5)));
  EXPECT_LT(next_use(weight(0)), next_use(weight(1)));
}

// A program without launches, or one in which one launch makes everything, teaches no more than the table can hold.
TEST_F(ExpertsTest, WhatNoLaunchTellsApartIsNotLearned) {
  train(3);
  forward(1);
  std::vector<std::uint64_t> made;
  for (int i = 0; i < 300; ++i) made.push_back(make());
  launch(9, made);
  launch(10, {made.back(), weight(1)});
  for (const std::uint64_t each : made) routine_.freed(each);
  routine_.step(1e6);
  routine_.validate();
  train(3);
  EXPECT_FALSE(routine_.ahead(table_).block.valid());
}

TEST_F(ExpertsTest, AgreementIsWhatWasForeseen) {
  train(40);
  EXPECT_GT(routine_.agreement().share(0), 0.6);
  EXPECT_LT(routine_.agreement().share(0), 0.95) << "which expert comes nobody knows";
  train(20, 1);
  EXPECT_GT(routine_.agreement().share(0), 0.99);
}

}  // namespace
}  // namespace ebb
