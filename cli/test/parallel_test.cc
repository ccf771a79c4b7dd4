// Pieces of work that are run beside one another: each once, told in order, and failures come out.
#include "parallel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace ebb::cli {
namespace {

using Work = std::vector<std::function<void()>>;

TEST(RunInParallel, AllIsDoneOnceAndToldInOrder) {
  std::array<std::atomic<int>, 40> runs{};
  Work pieces;
  for (auto& each : runs) pieces.emplace_back([&each] { ++each; });
  std::vector<std::size_t> told;
  run_in_parallel(pieces, [&](std::size_t done) { told.push_back(done); });
  for (const auto& each : runs) EXPECT_EQ(each, 1);
  ASSERT_EQ(told.size(), runs.size());
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i], i + 1);
}

TEST(RunInParallel, NothingIsDoneAtOnce) {
  bool told = false;
  run_in_parallel({}, [&](std::size_t) { told = true; });
  EXPECT_FALSE(told);
}

TEST(RunInParallel, APieceMayWaitForAnotherWhereThereAreProcessorsForBoth) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  std::atomic<int> here{0};
  const auto meet = [&] {
    ++here;
    while (here < 2) std::this_thread::yield();
  };
  run_in_parallel({meet, meet}, [](std::size_t) {});
  EXPECT_EQ(here, 2);
}

TEST(RunInParallel, TheFirstFailureIsThrownAndNoMoreIsBegun) {
  std::atomic<int> after{0};
  Work pieces{[] { throw std::runtime_error("first"); }, [] { throw std::runtime_error("second"); }};
  const int rest = 100 * static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 0; i < rest; ++i) {
    pieces.emplace_back([&] {
      ++after;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  try {
    run_in_parallel(pieces, [](std::size_t) {});
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_LT(after, rest);
}

}  // namespace
}  // namespace ebb::cli
