// What becomes of a running program in a trace.
#include "plan/recorder.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kForward = 1, kBackward = 2, kOptimizer = 3;

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() : recorder_(make_policy("window")) {
    recorder_.name_op(kForward, "forward");
    weight_ = allocate(1000);
  }
  std::uint64_t allocate(std::uint64_t bytes) {
    recorder_.allocated(++serial_, bytes, {BlockIndex(static_cast<std::uint32_t>(serial_)), 1});
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

}  // namespace
}  // namespace ebb
