// A budget that changes under a running program, on real memory: what it computes stays, memory measured from outside
// follows, and what cannot be is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kMost = 32 * kMiB;
constexpr std::uint64_t kLeast = 2 * kMiB;

// Of this process, as the kernel counts it, each page once, but for pages of files.
std::uint64_t own_bytes() {
  std::ifstream counts("/proc/self/smaps_rollup");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(counts, line);) {
    if (line.rfind("Pss_Anon:", 0) == 0 || line.rfind("Pss_Shmem:", 0) == 0) {
      sum += std::stoull(line.substr(line.find(':') + 1)) * kKiB;
    }
  }
  return sum;
}

class ChangingBudget : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Options options;
    options.memory = kMost / 2;
    options.memory_max = kMost;
    options.flash_bytes = 256 * kMiB;
    options.block_bytes = kBlock;
    options.memory_driver = GetParam();
    try {
      runtime_ = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::uint64_t* allocate(std::uint64_t bytes) { return static_cast<std::uint64_t*>(runtime_->allocate(bytes)); }
  static void fill(std::uint64_t* words, std::uint64_t bytes, std::uint64_t value) {
    for (std::uint64_t i = 0; i < bytes / sizeof *words; i += 512) words[i] = value + i;
  }
  static void check(const std::uint64_t* words, std::uint64_t bytes, std::uint64_t value) {
    for (std::uint64_t i = 0; i < bytes / sizeof *words; i += 512) EBB_CHECK_EQ(words[i], value + i);
  }

  std::shared_ptr<Runtime> runtime_;
};

TEST_P(ChangingBudget, WhatIsGivenUpIsBackWithTheSystem) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's own memory is in what is measured";
#endif
  const std::uint64_t before = own_bytes();
  runtime_->set_budget(kMost);
  std::uint64_t* const data = allocate(2 * kMost);
  fill(data, 2 * kMost, 1);
  EXPECT_LT(kMost * 3 / 4, own_bytes() - before);
  runtime_->set_budget(kMost / 4);
  EXPECT_LE(runtime_->stats().resident_bytes, kMost / 4);
  EXPECT_EQ(runtime_->stats().budget_bytes, kMost / 4);
  EXPECT_LT(own_bytes() - before, kMost / 4 + 2 * kMiB);
  check(data, 2 * kMost, 1);
  EXPECT_LT(own_bytes() - before, kMost / 4 + 2 * kMiB);
  runtime_->set_budget(kMost);
  EXPECT_LT(own_bytes() - before, kMost / 4 + 2 * kMiB) << "more comes when it is needed";
  check(data, 2 * kMost, 1);
  EXPECT_LT(kMost * 3 / 4, own_bytes() - before);
  runtime_->deallocate(data);
}

TEST_P(ChangingBudget, WhatCannotBeIsRefusedAndNothingChanges) {
  for (const std::uint64_t bytes : {kMost + 1, 4 * kBlock, std::uint64_t{0}}) {
    EXPECT_THROW(runtime_->set_budget(bytes), Error) << bytes;
    EXPECT_EQ(runtime_->stats().budget_bytes, kMost / 2);
  }
}

TEST_P(ChangingBudget, WhatHasNoPlaceOnFlashStays) {
  runtime_->set_budget(kMost);
  std::uint64_t* const data = allocate(256 * kMiB + kMost / 2);  // flash holds 256 MiB of it
  EXPECT_THROW(runtime_->set_budget(kMost / 4), Error);
  EXPECT_EQ(runtime_->stats().budget_bytes, kMost);
  runtime_->deallocate(data);
  runtime_->set_budget(kMost / 4);
}

TEST_P(ChangingBudget, ThreadsNoticeNothing) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      Rng rng(number + 1);
      std::vector<std::pair<std::uint64_t*, std::uint64_t>> held;
      while (!over) {
        if (held.size() < 24 && rng.chance(1, 2)) {
          const std::uint64_t bytes = rng.between(1, 32) * kBlock / 2;
          held.emplace_back(allocate(bytes), bytes);
          fill(held.back().first, bytes, bytes + number);
        } else if (!held.empty()) {
          const std::size_t at = rng.below(held.size());
          const auto [data, bytes] = held[at];
          const Access access{data, bytes, data};
          const std::uint64_t ticket = runtime_->announce(number, {&access, 1});
          check(data, bytes, bytes + number);
          runtime_->retire(ticket);
          if (rng.chance(1, 2)) {
            runtime_->deallocate(data);
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
          }
        }
      }
      for (const auto& [data, bytes] : held) {
        check(data, bytes, bytes + number);
        runtime_->deallocate(data);
      }
    });
  }
  Rng rng(99);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::uint64_t changes = 0;
  for (; std::chrono::steady_clock::now() < end; ++changes) {
    const std::uint64_t bytes = rng.between(kLeast, kMost);
    runtime_->set_budget(bytes);
    const Stats stats = runtime_->stats();
    EXPECT_EQ(stats.budget_bytes, bytes);
    EXPECT_LE(stats.resident_bytes, bytes);
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(5000)));
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(50u, changes);
}

INSTANTIATE_TEST_SUITE_P(Drivers, ChangingBudget, testing::Values("move", "remap"));

TEST(SizeOfBlocks, IsASixtyFourthOfASmallBudget) {
  EXPECT_EQ(Options::usual_block_bytes(0), 64 * kKiB);
  EXPECT_EQ(Options::usual_block_bytes(33 * kMiB), 512 * kKiB);
  EXPECT_EQ(Options::usual_block_bytes(128 * kMiB - 1), kMiB);
  EXPECT_EQ(Options::usual_block_bytes(128 * kMiB), 2 * kMiB);
  EXPECT_EQ(Options::usual_block_bytes(kGiB), 2 * kMiB);
}

TEST(SizeOfBlocks, LetsABudgetBeAsSmallAsTwoMebibytes) {
  Options options;
  options.memory = 2 * kMiB;
  options.flash_bytes = 256 * kMiB;
  std::shared_ptr<Runtime> runtime;
  try {
    runtime = Runtime::open(options);
  } catch (const Error& error) {
    ASSERT_NE(error.status(), Status::kInvalid) << error.what();
    GTEST_SKIP() << error.what();
  }
  constexpr std::uint64_t kBytes = 16 * kMiB;
  auto* const words = static_cast<std::uint64_t*>(runtime->allocate(kBytes));
  for (std::uint64_t i = 0; i < kBytes / sizeof *words; i += 512) words[i] = i;
  for (std::uint64_t i = 0; i < kBytes / sizeof *words; i += 512) ASSERT_EQ(words[i], i);
  EXPECT_LE(runtime->stats().resident_bytes, options.memory);
  runtime->deallocate(words);
}

}  // namespace
}  // namespace ebb
