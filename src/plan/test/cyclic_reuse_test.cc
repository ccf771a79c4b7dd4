// CyclicReuse: on a memory of so many frames that evicts what it says is worth least.
#include "plan/planner/cyclic_reuse.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace ebb {
namespace {

constexpr std::uint32_t kBlocks = 1000;
constexpr std::uint32_t kFrames = 64;

class CyclicReuseTest : public testing::Test {
 protected:
  CyclicReuseTest() {
    reuse_.cover(kBlocks);
    reuse_.set_frames(kFrames);
  }
  // What is there is touched unseen.
  void touch(std::uint32_t block) {
    if (here_.contains(block)) return;
    ++arrivals_;
    if (here_.size() == kFrames) {
      const std::uint32_t leaves = least();
      leavings_[leaves] += 1;
      here_.erase(leaves);
    }
    reuse_.touched();
    here_[block].last_use = ++stamp_;
    static_cast<void>(reuse_.arrived(BlockIndex(block)));
  }
  // The arrivals of one pass through so many blocks, after some others.
  std::uint32_t arrivals_of_a_pass(std::uint32_t blocks, int passes = 10, std::uint32_t first = 0) {
    for (int pass = 0; pass < passes; ++pass) {
      arrivals_ = 0;
      for (std::uint32_t i = 0; i < blocks; ++i) touch(first + i);
    }
    return arrivals_;
  }
  std::uint32_t least() const {
    const auto worth = [&](const auto& each) {
      return reuse_.active() ? reuse_.keep(BlockIndex(each.first), each.second) : each.second.last_use;
    };
    return std::min_element(here_.begin(), here_.end(),
                            [&](const auto& left, const auto& right) { return worth(left) < worth(right); })
        ->first;
  }

  CyclicReuse reuse_;
  std::map<std::uint32_t, Block> here_;
  std::map<std::uint32_t, int> leavings_;
  std::uint64_t stamp_ = 0;
  std::uint32_t arrivals_ = 0;
};

TEST_F(CyclicReuseTest, MostOfALoopStays) {
  for (const std::uint32_t blocks : {70u, 100u, 200u}) {
    reuse_ = {};
    here_.clear();
    reuse_.cover(kBlocks);
    reuse_.set_frames(kFrames);
    EXPECT_LE(arrivals_of_a_pass(blocks), blocks - kFrames + 5) << blocks;
  }
}

TEST_F(CyclicReuseTest, LookingAgainCostsLittle) {
  std::uint32_t arrivals = 0;
  for (int pass = 0; pass < 500; ++pass) arrivals += arrivals_of_a_pass(100, 1);
  EXPECT_LE(arrivals, 500 * (100 - kFrames + 5) * 11 / 10);
}

TEST_F(CyclicReuseTest, WhatFitsComesOnceAfterALoopThatDidNot) {
  arrivals_of_a_pass(100);
  EXPECT_EQ(arrivals_of_a_pass(50, 4, 500), 0u);
  arrivals_of_a_pass(100);
  EXPECT_EQ(arrivals_of_a_pass(60, 80), 0u) << "part of the loop: it may take a while";
}

TEST_F(CyclicReuseTest, SeveralArraysSideBySideAreOneLoop) {
  for (int pass = 0; pass < 12; ++pass) {
    arrivals_ = 0;
    for (std::uint32_t i = 0; i < 40; ++i) {
      for (const std::uint32_t array : {0u, 300u, 600u}) touch(array + i);
      touch(i);  // still in use
    }
  }
  EXPECT_LE(arrivals_, 120 - kFrames + 9);
}

// What a pass makes is freed after it, and made anew at the same place by the next one: it would have to be written.
TEST_F(CyclicReuseTest, WhatIsMadeAnewStaysLongerThanWhatComesAgain) {
  for (int pass = 0; pass < 20; ++pass) {
    leavings_.clear();
    for (std::uint32_t i = 0; i < 50; ++i) {
      touch(i);
      touch(500 + i);
    }
    for (std::uint32_t i = 0; i < 50; ++i) here_.erase(500 + i);
    reuse_.forget({BlockIndex(500), 50});
  }
  int made = 0;
  for (std::uint32_t i = 0; i < 50; ++i) made += leavings_[500 + i];
  EXPECT_LE(made, 5);
}

// Ten times through each of many chunks that fit: each block comes once a chunk, give or take a try or two.
TEST_F(CyclicReuseTest, LoopsOverChunksThatFitAreNoLoopOverMore) {
  std::uint32_t arrivals = 0;
  for (int pass = 0; pass < 20; ++pass) {
    for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
      arrivals_ = 0;
      for (int i = 0; i < 10; ++i) {
        for (std::uint32_t block = 0; block < 50; ++block) touch(chunk * 50 + block);
      }
      arrivals += arrivals_;
    }
  }
  EXPECT_LE(arrivals, 20 * 200 + 20 * 200 / 10);
}

TEST_F(CyclicReuseTest, ThereAndBackAgainIsNoLoop) {
  std::uint32_t arrivals = 0;
  for (int pass = 0; pass < 100; ++pass) {
    arrivals_ = 0;
    for (std::uint32_t i = 0; i < 125; ++i) touch(pass % 2 == 0 ? i : 124 - i);
    arrivals += arrivals_;
  }
  EXPECT_LE(arrivals, 100 * (125 - kFrames) * 11 / 10) << "what came last is still there";
}

TEST_F(CyclicReuseTest, TouchesInNoOrderAreNone) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    touch(static_cast<std::uint32_t>(rng.below(200)));
    EXPECT_FALSE(reuse_.active()) << i;
  }
}

TEST_F(CyclicReuseTest, LaunchesSayMore) {
  arrivals_of_a_pass(100);
  ASSERT_TRUE(reuse_.active());
  reuse_.launched();
  EXPECT_FALSE(reuse_.active());
}

}  // namespace
}  // namespace ebb
