// Follower, through belady: how much of what a program repeats is known in its second iteration.
#include "plan/follow/follower.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb {
namespace {

constexpr std::uint32_t kLayers = 20;
constexpr std::uint64_t kBlock = 1 << 21;

// A program on a space without reuse: every allocation has a block of its own.
class Program {
 public:
  Program() { policy_.budget(kBlock, 64); }

  std::uint64_t allocate() {
    const std::uint64_t serial = ++serial_;
    policy_.allocated(serial, kBlock, block_of(serial));
    return serial;
  }
  void launch(std::uint64_t op, const std::vector<std::uint64_t>& allocations) {
    std::vector<Touch> touches;
    for (const std::uint64_t each : allocations) touches.push_back({each, kBlock, block_of(each), true});
    policy_.launched(op, touches);
  }
  // Each weight is made, and filled by several operators that are the same for all.
  void set_up() {
    table_ = allocate();
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      weights_.push_back(allocate());
      for (std::uint64_t op = 1; op <= 10; ++op) launch(op, {weights_.back()});
    }
  }
  void forward() {
    launch(50, {allocate()});
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      made_.push_back(allocate());
      launch(100 + i % 3, {weights_[i], made_.back()});
    }
  }
  void backward(std::uint32_t layers) {
    for (std::uint32_t i = 0; i < layers; ++i) {
      launch(200, {weights_[made_.size() - 1], made_.back()});
      policy_.freed(made_.back());
      made_.pop_back();
    }
  }
  // One expert of those that set_up() has made, used twice around something short-lived.
  void use_expert(std::uint32_t expert) {
    const std::uint64_t made = allocate();
    launch(300, {made});
    launch(301, {weights_[expert], made});
    expert_worths_.clear();
    for (std::uint32_t i = 0; i < kLayers; ++i) expert_worths_.push_back(worth_of_weight(i));
    launch(302, {made});
    launch(303, {weights_[expert], made});
    policy_.freed(made);
  }
  // Of all weights, between the first use of the expert and the second one.
  const std::vector<std::uint64_t>& expert_worths() const { return expert_worths_; }
  // Layers that use nothing that lives longer; each frees what it has made.
  void pass(std::uint32_t layers) {
    for (std::uint32_t i = 0; i < layers; ++i) {
      const std::uint64_t made = allocate();
      launch(400, {weights_[0], made});
      policy_.freed(made);
    }
  }
  // One operator a layer on a weight of its own, and another one at the end. With a long input it has what it works on
  // as a second operand, and the other one runs many times in between, too. All layers look into one table, and twice
  // with a long input. Returns after how many layers the next
  // one's weight was known to be the one needed first.
  std::uint32_t generate(bool long_input) {
    std::uint32_t foreseen = 0;
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      const std::uint64_t made = allocate();
      launch(502, {table_});
      if (long_input) {
        launch(502, {table_});
        for (std::uint32_t more = 0; more < 70; ++more) launch(501, {made});
        launch(500, {weights_[i], made});
      } else {
        launch(500, {weights_[i]});
      }
      policy_.freed(made);
      std::uint32_t worth_less = 0;
      for (std::uint32_t other = 0; other < kLayers && i + 1 < kLayers; ++other) {
        worth_less += worth_of_weight(other) < worth_of_weight(i + 1) ? 1 : 0;
      }
      foreseen += worth_less == kLayers - 1 ? 1 : 0;
    }
    launch(501, {allocate()});
    return foreseen;
  }
  // Layers of a file, each followed by one of its experts, which is a tensor of its own there. Returns of how many
  // layers an expert was expected to be used next before it was.
  std::uint32_t choose_experts(std::uint32_t iteration) {
    std::uint32_t expected = 0;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      launch(600, {file_part(layer * 8)});
      const std::uint64_t made = allocate();
      for (std::uint32_t expert = 1; expert < 8; ++expert) {
        const std::uint64_t worth = policy_.keep(block_of(file_part(layer * 8 + expert)).first, Block());
        expected += worth > worth_when_unknown() ? 1 : 0;
      }
      // One is used each time, and another one by an operator that is another one each time.
      launch(601, {file_part(layer * 8 + 1), made});
      launch(602 + iteration, {file_part(layer * 8 + 2 + (iteration * 5 + layer * 3) % 6), made});
      policy_.freed(made);
    }
    return expected;
  }
  void step() { policy_.step(); }
  std::uint64_t worth_of_weight(std::uint32_t layer) const {
    return policy_.keep(block_of(weights_[layer]).first, Block());
  }
  const Policy& policy() const { return policy_; }

 private:
  // The rest of the space is a file.
  static BlockRange block_of(std::uint64_t serial) {
    return {
        BlockIndex(static_cast<std::uint32_t>(serial >= kLastingSerials ? serial - kLastingSerials + 4096 : serial)),
        1};
  }
  std::uint64_t file_part(std::uint32_t part) {
    const std::uint64_t serial = kLastingSerials + part;
    if (part >= parts_) {
      for (; parts_ <= part; ++parts_)
        policy_.mapped(kLastingSerials + parts_, kBlock, block_of(kLastingSerials + parts_));
    }
    return serial;
  }
  // Of what is not known to be used again.
  std::uint64_t worth_when_unknown() {
    policy_.mapped(kLastingSerials + 4095, kBlock, block_of(kLastingSerials + 4095));
    return policy_.keep(block_of(kLastingSerials + 4095).first, Block());
  }

  Belady policy_;
  std::uint64_t serial_ = 0, table_ = 0;
  std::uint32_t parts_ = 0;
  std::vector<std::uint64_t> weights_, made_;
  std::vector<std::uint64_t> expert_worths_;
};

TEST(Follower, TheSetupBeforeTheFirstIterationIsCutOff) {
  Program program;
  program.set_up();
  program.forward();
  program.backward(kLayers);
  program.step();
  program.forward();
  program.backward(kLayers / 2);
  // What the backward pass has still to come to is worth more than what it has used just now.
  for (std::uint32_t early = 0; early + 1 < kLayers / 2; ++early) {
    EXPECT_LT(program.worth_of_weight(early), program.worth_of_weight(early + 1)) << early;
    EXPECT_GT(program.worth_of_weight(early), program.worth_of_weight(kLayers - 1)) << early;
  }
  EXPECT_EQ(program.policy().deviations(), 0u);
}

TEST(Follower, AnotherSecondIterationIsNotTakenForTheFirst) {
  Program program;
  program.set_up();
  program.forward();
  program.backward(kLayers);
  program.step();
  for (std::uint64_t i = 0; i < 200; ++i) program.launch(1000 + i, {program.allocate()});
  EXPECT_EQ(program.policy().deviations(), 1u);
  EXPECT_EQ(program.worth_of_weight(0), program.worth_of_weight(1));  // nothing is followed, all were used at 0
}

TEST(Follower, WhichTensorVariesIsNotForeseenBeforeItIsUsed) {
  Program program;
  program.set_up();
  program.step();
  const auto worths = [&] {
    std::vector<std::uint64_t> all;
    for (std::uint32_t i = 0; i < kLayers; ++i) all.push_back(program.worth_of_weight(i));
    return all;
  };
  constexpr std::uint32_t kConvinced = 4;  // iterations that are not as the one before; a first one is forgiven
  for (std::uint32_t expert = 0; expert < kLayers; ++expert) {
    program.use_expert(expert);
    for (std::uint32_t other = 0; other < kLayers; ++other) {
      if (other == expert || expert < kConvinced) continue;
      EXPECT_GE(program.expert_worths()[expert], program.expert_worths()[other]) << expert << ", " << other;
    }
    program.step();
    // None of them is expected more than another.
    if (expert >= kConvinced) {
      EXPECT_EQ(worths(), std::vector(kLayers, worths()[0])) << expert;
    }
  }
  // The same one again and again, until that is believed.
  for (std::uint32_t i = 0; i < 8; ++i) {
    program.use_expert(7);
    program.step();
  }
  for (std::uint32_t other = 0; other < kLayers; ++other) {
    if (other == 7) continue;
    EXPECT_GT(program.worth_of_weight(7), program.worth_of_weight(other)) << other;
  }
  EXPECT_EQ(program.policy().deviations(), 0u);
}

TEST(Follower, WhatIsNotUsedInEachIterationIsNotExpected) {
  Program program;
  for (std::uint32_t i = 0; i < 8; ++i) {
    program.choose_experts(i);
    program.step();
  }
  // Of each layer the one that is always used is expected, and none of the others.
  EXPECT_EQ(program.choose_experts(8), kLayers);
}

TEST(Follower, ALayerIsKnownByItsWeightsWhateverElseItTouches) {
  Program program;
  program.set_up();
  program.step();
  for (std::uint32_t i = 0; i < 3; ++i) {
    program.generate(false);
    program.step();
  }
  EXPECT_EQ(program.generate(true), kLayers - 1);
  EXPECT_EQ(program.policy().deviations(), 0u);
}

TEST(Follower, KindsThatBeginInTheSameWayAreNotTakenForEachOther) {
  Program program;
  program.set_up();
  program.step();
  for (std::uint32_t i = 0; i < 6; ++i) {
    program.pass(i % 2 == 0 ? kLayers : kLayers / 2);
    program.step();
  }
  const std::uint64_t before = program.policy().deviations();
  for (std::uint32_t i = 0; i < 6; ++i) {
    program.pass(i % 2 == 0 ? kLayers : kLayers / 2);
    program.step();
  }
  EXPECT_EQ(program.policy().deviations(), before);
}

TEST(Follower, AnotherKindIsExpectedAfterAsManyOfOneAsTheLastTime) {
  Program program;
  program.set_up();
  program.step();
  const auto image = [&] {
    for (std::uint32_t i = 0; i < 5; ++i) {
      program.pass(kLayers);
      program.step();
    }
    program.pass(kLayers + 3);
    program.step();
  };
  for (std::uint32_t i = 0; i < 2; ++i) image();
  const std::uint64_t before = program.policy().deviations();
  for (std::uint32_t i = 0; i < 3; ++i) image();
  EXPECT_EQ(program.policy().deviations(), before);
}

}  // namespace
}  // namespace ebb
