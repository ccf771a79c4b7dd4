// What becomes of a running program in a trace.
#include "plan/recorder.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kForward = 1, kBackward = 2, kOptimizer = 3;

class RecorderTest : public testing::Test {
 protected:
  explicit RecorderTest(std::uint32_t iterations = 1) : recorder_(make_policy("window"), iterations) {
    recorder_.name_op(kForward, "forward");
    weight_ = allocate(1000);
  }
  std::uint64_t allocate(std::uint64_t bytes) {
    ++serial_;
    recorder_.allocated(serial_, bytes, {BlockIndex(static_cast<std::uint32_t>(serial_)), 1});
    bytes_.push_back(bytes);
    return serial_;
  }
  void launch(std::uint64_t op, std::vector<std::pair<std::uint64_t, bool>> tensors) {
    std::vector<Touch> touches;
    for (const auto& [tensor, written] : tensors) {
      touches.push_back({tensor, bytes_[tensor - 1], {BlockIndex(static_cast<std::uint32_t>(tensor)), 1}, written});
    }
    recorder_.launched(op, touches);
    recorder_.ran(op * 100);
  }
  // The gradient lives until the next iteration has begun, as after zero_grad(set_to_none=True).
  void train() {
    if (gradient_ != 0) recorder_.freed(gradient_);
    launch(kForward, {{weight_, false}});
    const std::uint64_t activation = allocate(2000);
    launch(kBackward, {{weight_, false}, {activation, false}});
    gradient_ = allocate(1000);
    recorder_.freed(activation);
    launch(kOptimizer, {{weight_, true}, {gradient_, false}});
    recorder_.step();
  }

  Recorder recorder_;
  std::vector<std::uint64_t> bytes_;
  std::uint64_t serial_ = 0;
  std::uint64_t weight_ = 0;
  std::uint64_t gradient_ = 0;
};

TEST_F(RecorderTest, NeedsTwoWholeIterations) {
  train();
  EXPECT_FALSE(recorder_.has_trace());
  train();
  EXPECT_TRUE(recorder_.has_trace());
}

TEST_F(RecorderTest, TheIterationBeginsWhereNothingPassingLivesAcross) {
  for (int i = 0; i < 4; ++i) train();
  const Trace trace = recorder_.trace();
  EXPECT_EQ(check(trace), "");
  ASSERT_EQ(trace.launches.size(), 3u);
  ASSERT_EQ(trace.tensors.size(), 3u);
  int persistent = 0;
  for (const Trace::Tensor& tensor : trace.tensors) {
    persistent += tensor.persistent ? 1 : 0;
    EXPECT_EQ(tensor.persistent, tensor.allocated_before == Trace::kNone);
  }
  EXPECT_EQ(persistent, 1);
  EXPECT_EQ(trace.ops[trace.launches[0].op], "forward");
  EXPECT_EQ(trace.launches[0].ns, 100u);
}

// Parts of a file have lasting serials (plan/policy.h).
TEST_F(RecorderTest, WhatIsMappedIsMarked) {
  const std::uint64_t part = kLastingSerials + 3;
  recorder_.mapped(part, 5000, {BlockIndex(40), 2});
  for (int i = 0; i < 4; ++i) {
    launch(kForward, {{weight_, false}});
    recorder_.launched(kBackward, std::vector<Touch>{{part, 5000, {BlockIndex(40), 2}, false}});
    recorder_.step();
  }
  const Trace trace = recorder_.trace();
  EXPECT_EQ(check(trace), "");
  ASSERT_EQ(trace.tensors.size(), 2u);
  for (const Trace::Tensor& tensor : trace.tensors) EXPECT_EQ(tensor.mapped, tensor.bytes == 5000);
}

TEST_F(RecorderTest, ALaunchWritesWhatItAllocatesAndWhatItsSchemaSays) {
  for (int i = 0; i < 4; ++i) train();
  const Trace trace = recorder_.trace();
  for (const Trace::Launch& launch : trace.launches) EXPECT_EQ(trace.writes(launch).size(), 1u);
}

TEST_F(RecorderTest, OneIterationIsDueFromTheFourthStepOnWheneverTheirNumberHasDoubled) {
  std::vector<int> due;
  for (int i = 1; i <= 16; ++i) {
    train();
    if (recorder_.due()) due.push_back(i);
  }
  EXPECT_EQ(due, (std::vector<int>{4, 8, 16}));
  EXPECT_FALSE(recorder_.is_over());
}

class SequenceRecorderTest : public RecorderTest {
 protected:
  SequenceRecorderTest() : RecorderTest(5) {}
  // The weight is used with a tensor of its own length each time, and every second time with a cache that lives on.
  void iterate(std::uint64_t number) {
    const std::uint64_t input = allocate(100 + number);
    launch(kForward, {{weight_, false}, {input, false}});
    const std::uint64_t output = allocate(2000);
    recorder_.freed(input);
    if (number % 2 == 0) {
      if (cache_ != 0) launch(kBackward, {{cache_, false}});
      const std::uint64_t grown = allocate(5000 + number);
      if (cache_ != 0) recorder_.freed(cache_);
      cache_ = grown;
    }
    launch(kOptimizer, {{weight_, true}, {output, false}});
    recorder_.freed(output);
    recorder_.step();
  }

  std::uint64_t cache_ = 0;
};

TEST_F(SequenceRecorderTest, HasTheIterationsAfterTheFirstTwoAsTheyWere) {
  std::vector<std::uint64_t> due;
  for (std::uint64_t number = 1; number <= 9; ++number) {
    iterate(number);
    if (recorder_.due()) due.push_back(number);
  }
  EXPECT_EQ(due, (std::vector<std::uint64_t>{4, 6, 7})) << "with two, with four, and with all of them";
  EXPECT_TRUE(recorder_.is_over());
  const Trace trace = recorder_.trace();
  EXPECT_EQ(check(trace), "");
  EXPECT_TRUE(trace.sequence);
  EXPECT_EQ(trace.steps, (std::vector<Trace::LaunchIndex>{2, 5, 7, 10, 12})) << "iterations 3 to 7";
  std::vector<std::uint64_t> inputs;
  for (const Trace::Tensor& tensor : trace.tensors) {
    if (tensor.bytes < 200) inputs.push_back(tensor.bytes);
    EXPECT_EQ(tensor.persistent, tensor.bytes == 1000) << "the weight, and nothing else";
  }
  EXPECT_EQ(inputs, (std::vector<std::uint64_t>{103, 104, 105, 106, 107}));
}

TEST_F(SequenceRecorderTest, WhatLivesAcrossIterationsIsOneTensor) {
  for (std::uint64_t number = 1; number <= 7; ++number) iterate(number);
  const Trace trace = recorder_.trace();
  std::vector<Trace::Tensor> caches;
  for (const Trace::Tensor& tensor : trace.tensors) {
    if (tensor.bytes >= 5000) caches.push_back(tensor);
  }
  // Made in iterations 2, 4 and 6; 2 was not recorded, so that one is there from the beginning.
  ASSERT_EQ(caches.size(), 3u);
  EXPECT_EQ(caches[0].allocated_before, 0u);
  EXPECT_EQ(caches[0].freed_before, 4u);
  EXPECT_EQ(caches[1].allocated_before, 3u);
  EXPECT_EQ(caches[1].freed_before, 9u);
  EXPECT_EQ(caches[2].allocated_before, 8u);
  EXPECT_EQ(caches[2].freed_before, trace.launches.size()) << "there at the end";
}

TEST_F(SequenceRecorderTest, WhatIsBetweenTwoIterationsBelongsToTheLater) {
  for (std::uint64_t number = 1; number <= 7; ++number) iterate(number);
  const Trace trace = recorder_.trace();
  for (const Trace::Tensor& tensor : trace.tensors) {
    if (tensor.bytes >= 200) continue;
    const std::size_t iteration = tensor.bytes - 103;
    EXPECT_EQ(tensor.allocated_before, trace.begin_after(iteration));
  }
}

TEST_F(SequenceRecorderTest, AnUnfinishedIterationIsLeftOut) {
  for (std::uint64_t number = 1; number <= 4; ++number) iterate(number);
  const std::uint64_t last = allocate(77);
  launch(kForward, {{weight_, false}, {last, false}});
  const Trace trace = recorder_.trace();
  EXPECT_EQ(check(trace), "");
  EXPECT_EQ(trace.steps, (std::vector<Trace::LaunchIndex>{2, 5}));
  for (const Trace::Tensor& tensor : trace.tensors) EXPECT_NE(tensor.bytes, 77u);
}

// What looked like iterations before the program told of its own is forgotten.
TEST_F(SequenceRecorderTest, BeginsAnewWhenStepsAreTold) {
  for (std::uint64_t number = 1; number <= 5; ++number) iterate(number);
  EXPECT_TRUE(recorder_.has_trace());
  recorder_.steps_are_told();
  EXPECT_FALSE(recorder_.has_trace());
  for (std::uint64_t number = 6; number <= 12; ++number) {
    recorder_.steps_are_told();
    iterate(number);
  }
  EXPECT_EQ(recorder_.trace().steps.size(), 5u);
}

TEST_F(SequenceRecorderTest, AllTimeIsThatOfALaunch) {
  for (std::uint64_t number = 1; number <= 3; ++number) iterate(number);
  recorder_.launched(99, {});  // touches nothing that is managed
  recorder_.ran(7);
  for (std::uint64_t number = 4; number <= 7; ++number) iterate(number);
  std::uint64_t ns = 0;
  for (const Trace::Launch& launch : recorder_.trace().launches) ns += launch.ns;
  EXPECT_EQ(ns, 5 * 100 * (kForward + kOptimizer) + 2 * 100 * kBackward + 7);
}

}  // namespace
}  // namespace ebb
