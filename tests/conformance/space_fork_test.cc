// What every implementation of SpaceMemory has to do around fork: the child finds an empty space at the same addresses
// and serves it from what it inherited, while the parent goes on; neither sees what the other writes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/test/in_a_child.h"
#include "pager.h"
#include "space_drivers.h"

namespace ebb::conformance {
namespace {

constexpr unsigned kSecondsMax = 120;
constexpr std::uint32_t kBlocks = 8;
constexpr std::uint32_t kFrames = 3;
constexpr std::size_t kBlockBytes = 64 * 1024;
constexpr std::size_t kWords = kBlockBytes / sizeof(std::uint64_t);

class SpaceForkTest : public testing::TestWithParam<SpaceDriver> {
 protected:
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
    ::alarm(kSecondsMax);
    std::string reason;
    memory_ = make_space(GetParam(), kBlockBytes, kBlocks, kFrames, reason);
    if (memory_ == nullptr) GTEST_SKIP() << reason;
    pager_ = std::make_unique<Pager>(*memory_, kBlockBytes, kBlocks, kFrames);
    for (std::uint32_t block = 0; block < kBlocks; ++block) fill(block, 1000 + block);
  }
  void TearDown() override { ::alarm(0); }

  volatile std::uint64_t* at(std::uint32_t block) const {
    return reinterpret_cast<std::uint64_t*>(memory_->base() + block * kBlockBytes);
  }
  void fill(std::uint32_t block, std::uint64_t value) {
    for (std::size_t i = 0; i < kWords; ++i) at(block)[i] = value;
  }
  bool holds(std::uint32_t block, std::uint64_t value) {
    for (std::size_t i = 0; i < kWords; ++i) {
      if (at(block)[i] != value) return false;
    }
    return true;
  }

  // Forks as the runtime does: every block has a copy, and nothing moves meanwhile. The child ends with what `run`
  // says.
  template <typename Run>
  pid_t fork_child(Run run) {
    for (std::uint32_t block = 0; block < kBlocks; ++block) EXPECT_EQ(pager_->evict(block), Status::kOk);
    pager_->serve(0);  // two blocks are resident at the fork
    pager_->serve(1);
    const std::lock_guard lock(pager_->mutex());
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kSecondsMax);
      ::signal(SIGBUS, SIG_DFL);  // a sanitizer may have a handler
      if (memory_->enter_child() != Status::kOk) ::_exit(99);
      std::thread([this] { serve_child(); }).detach();
      ::_exit(run());
    }
    return child;
  }

  void serve_child() {
    std::array<BlockIndex, 8> blocks;
    for (;;) {
      const std::size_t count = memory_->next(blocks);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t block = blocks[i].value();
        if (block == kBlocks - 1) {
          memory_->fail(blocks[i]);
        } else if (block == kBlocks - 2) {
          memory_->place(blocks[i], {});
        } else {
          memory_->place(blocks[i], pager_->copy(block));
        }
      }
    }
  }

  std::unique_ptr<SpaceMemory> memory_;
  std::unique_ptr<Pager> pager_;
};

TEST_P(SpaceForkTest, TheChildServesItselfWhileTheParentGoesOn) {
  const pid_t child = fork_child([&] {
    ::usleep(20'000);  // the parent writes meanwhile
    for (std::uint32_t block = 0; block < kBlocks - 2; ++block) {
      if (!holds(block, 1000 + block)) return 1;
    }
    if (!holds(kBlocks - 2, 0)) return 2;
    for (std::uint32_t block = 0; block < kBlocks - 1; ++block) fill(block, 5);
    for (std::uint32_t block = 0; block < kBlocks - 1; ++block) {
      if (!holds(block, 5)) return 3;
    }
    return 0;
  });
  for (std::uint32_t block = 0; block < kBlocks; ++block) fill(block, 7);
  EXPECT_EQ(end_of(child), 0);
  for (std::uint32_t block = 0; block < kBlocks; ++block) EXPECT_TRUE(holds(block, 7)) << block;
}

TEST_P(SpaceForkTest, ManyThreadsOfTheChildWriteAndNothingIsLost) {
  constexpr std::uint32_t kThreads = 8;
  const pid_t child = fork_child([&] {
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t block = 0; block < kBlocks - 2; ++block) at(block)[t] = t;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::uint32_t block = 0; block < kBlocks - 2; ++block) {
      for (std::uint32_t t = 0; t < kThreads; ++t) {
        if (at(block)[t] != t) return 1;
      }
      if (at(block)[kThreads] != 1000 + block) return 2;
    }
    return 0;
  });
  EXPECT_EQ(end_of(child), 0);
}

TEST_P(SpaceForkTest, ALostBlockEndsTheChildAndNotTheParent) {
  const pid_t child = fork_child([&] { return static_cast<int>(at(kBlocks - 1)[0]) & 1; });
  EXPECT_EQ(end_of(child), kSignalled + SIGBUS);
  EXPECT_TRUE(holds(kBlocks - 1, 1000 + kBlocks - 1));
}

TEST_P(SpaceForkTest, AGrandchildGoesOnFromWhatTheChildHas) {
  const pid_t child = fork_child([&] {
    fill(2, 42);
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      if (memory_->enter_child() != Status::kOk) ::_exit(98);
      std::thread([this] { serve_child(); }).detach();
      const bool right = holds(2, 42);
      fill(2, 43);
      ::_exit(right ? 0 : 1);
    }
    if (end_of(grandchild) != 0) return 1;
    return holds(2, 42) && holds(3, 1003) ? 0 : 2;
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_TRUE(holds(2, 1002));
}

INSTANTIATE_TEST_SUITE_P(Drivers, SpaceForkTest, testing::Values(SpaceDriver::kMove, SpaceDriver::kRemap),
                         [](const auto& test) { return name(test.param); });

}  // namespace
}  // namespace ebb::conformance
