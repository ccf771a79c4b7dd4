// How long iterations took: those that the program tells of, or, until it does, those by which it repeats itself.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr std::uint64_t kTensor = kMiB;

class StepsTest : public ::testing::Test {
 protected:
  StepsTest() {
    Options options;
    options.memory = 24 * kMiB;
    options.flash_bytes = 64 * kMiB;
    runtime_ = Runtime::open(options);
    for (void*& tensor : tensors_) tensor = runtime_->allocate(kTensor);
  }
  ~StepsTest() override {
    for (void* tensor : tensors_) runtime_->deallocate(tensor);
  }
  // As the cells of a recurrent network, or the layers of one that share their weights.
  void run_layers(int times) {
    for (int i = 0; i < times; ++i) {
      for (std::uint64_t op = 1; op <= 10; ++op) {
        for (void* tensor : tensors_) {
          const Access access{tensor, kTensor, tensor, 0, false, false};
          runtime_->retire(runtime_->announce(op, {&access, 1}));
        }
      }
    }
  }

  std::shared_ptr<Runtime> runtime_;
  std::array<void*, 4> tensors_{};
};

TEST_F(StepsTest, AreFoundWhereNobodyTellsOfThem) {
  run_layers(6);
  EXPECT_EQ(runtime_->stats().steps, 0u);
  EXPECT_GE(runtime_->step_seconds().size(), 3u);
}

TEST_F(StepsTest, WhatIsFoundBeforeTheFirstThatIsToldIsNone) {
  run_layers(6);
  ASSERT_GE(runtime_->step_seconds().size(), 3u);
  runtime_->step();
  EXPECT_TRUE(runtime_->step_seconds().empty()) << "nobody knows when the first one began";
  for (int step = 0; step < 2; ++step) {
    run_layers(6);
    runtime_->step();
  }
  EXPECT_EQ(runtime_->stats().steps, 3u);
  EXPECT_EQ(runtime_->step_seconds().size(), 2u);
}

}  // namespace
}  // namespace ebb
