// Fail at the n-th, for all n: one fixed program; in each run one more port call goes well before one fails. Whatever
// call it is, the program must end with the right content, and nothing may be left over.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBytes = 4096;
constexpr std::uint64_t kTensors = 12;
constexpr std::uint64_t kTensorBlocks = 3;

void write(SimDriver& driver, std::uint64_t offset, std::uint64_t value) {
  const BlockRange blocks = driver.core().blocks_of(offset, kTensorBlocks * kBytes);
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    ASSERT_EQ(driver.touch(i), SimDriver::Touch::kPresent);
    std::ranges::fill(driver.memory().bytes(i), static_cast<std::byte>(value + i.value()));
  }
}

void check(SimDriver& driver, std::uint64_t offset, std::uint64_t value) {
  const BlockRange blocks = driver.core().blocks_of(offset, kTensorBlocks * kBytes);
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    ASSERT_EQ(driver.touch(i), SimDriver::Touch::kPresent);
    const auto expected = static_cast<std::byte>(value + i.value());
    ASSERT_TRUE(std::ranges::all_of(driver.memory().bytes(i), [&](std::byte byte) { return byte == expected; }));
  }
}

// Iterations over tensors that do not fit, some of them rewritten, some replaced, with a snapshot in between.
void run_program(SimDriver& driver) {
  std::vector<std::uint64_t> tensors(kTensors);
  std::vector<std::uint64_t> values(kTensors);
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    ASSERT_EQ(driver.allocate(kTensorBlocks * kBytes, tensors[i]), Status::kOk);
    ASSERT_NO_FATAL_FAILURE(write(driver, tensors[i], values[i] = i));
  }
  std::vector<ExtentIndex> snapshot;
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::uint64_t i = 0; i < kTensors; ++i) {
      const Core::Range ranges[] = {
          {tensors[i], kTensorBlocks * kBytes, tensors[i], true},
          {tensors[(i + 1) % kTensors], kTensorBlocks * kBytes, tensors[(i + 1) % kTensors], true}};
      const std::uint64_t ticket = driver.announce(i, ranges);
      ASSERT_NO_FATAL_FAILURE(check(driver, tensors[i], values[i]));
      if (i % 3 == 0) {
        ASSERT_NO_FATAL_FAILURE(write(driver, tensors[i], values[i] = 50 * step + i));
      }
      driver.core().launches().retire(ticket);
      if (i % 4 == 1) {
        driver.deallocate(tensors[i]);
        ASSERT_EQ(driver.allocate(kTensorBlocks * kBytes, tensors[i]), Status::kOk);
        ASSERT_NO_FATAL_FAILURE(write(driver, tensors[i], values[i] = 100 + step));
      }
      driver.validate();
    }
    driver.core().launches().step();
    if (step == 1) {
      static_cast<void>(driver.flush());
      snapshot = driver.core().snapshot();
    }
  }
  driver.core().release_snapshot(snapshot);
  for (std::uint64_t i = 0; i < kTensors; ++i) ASSERT_NO_FATAL_FAILURE(check(driver, tensors[i], values[i]));
  for (const std::uint64_t tensor : tensors) driver.deallocate(tensor);
  driver.settle();
  driver.validate();
  ASSERT_EQ(driver.core().extents().used(), 0u);
  ASSERT_EQ(driver.counters().lost, 0u);
}

class FailAtNth : public ::testing::TestWithParam<const char*> {};

TEST_P(FailAtNth, EveryPortCall) {
  std::uint64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SimDriver::Config config;
    config.frames = 12;
    config.extents = 96;
    config.policy = GetParam();
    config.nth_fault = n;
    SimDriver driver(config);
    ASSERT_NO_FATAL_FAILURE(run_program(driver)) << "with port call " << n << " failing";
    failed = driver.nth_fault().fired();
    ASSERT_LT(n, 5000u);
  }
  EXPECT_LT(100u, n);  // the program does something
}

INSTANTIATE_TEST_SUITE_P(Policies, FailAtNth, ::testing::Values("on_demand", "window", "foresight"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ebb
