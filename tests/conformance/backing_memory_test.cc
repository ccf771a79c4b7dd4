// What every implementation of BackingMemory has to do, the simulated one included: where bytes are, and where they
// stay. What only memory at real addresses can show (faults, waiting, fork) is in space_memory_test.cc and
// space_fork_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "sim/sim_memory.h"
#include "space_drivers.h"

namespace ebb::conformance {
namespace {

constexpr std::size_t kBytes = 16 * 1024;
constexpr std::uint32_t kBlocks = 6;
constexpr std::uint32_t kFrames = 3;

// A backing memory and how the program sees a block that is present.
struct MemoryWorld {
  virtual ~MemoryWorld() = default;
  virtual BackingMemory& memory() = 0;
  virtual std::span<std::byte> bytes(BlockIndex block) = 0;
};

struct SpaceWorld final : MemoryWorld {
  explicit SpaceWorld(std::unique_ptr<SpaceMemory> made) : space(std::move(made)) {}
  BackingMemory& memory() override { return *space; }
  std::span<std::byte> bytes(BlockIndex block) override { return {space->base() + block.value() * kBytes, kBytes}; }
  std::unique_ptr<SpaceMemory> space;
};

struct SimMemoryWorld final : MemoryWorld {
  SimMemoryWorld() : sim({kBytes, kFrames, kBlocks, 1}, plan, nth, log) {}
  BackingMemory& memory() override { return sim; }
  std::span<std::byte> bytes(BlockIndex block) override { return sim.bytes(block); }
  FaultPlan plan;
  NthFault nth;
  EventLog log;
  SimMemory sim;
};

enum class Kind { kMove, kRemap, kSim };

class BackingMemoryTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kSim) {
      world_ = std::make_unique<SimMemoryWorld>();
    } else {
      std::string reason;
      auto made = make_space(GetParam() == Kind::kMove ? SpaceDriver::kMove : SpaceDriver::kRemap, kBytes, kBlocks,
                             kFrames, reason);
      if (made == nullptr) GTEST_SKIP() << reason;
      world_ = std::make_unique<SpaceWorld>(std::move(made));
    }
    for (std::uint32_t i = 0; i < kFrames; ++i) ASSERT_EQ(memory().create(FrameIndex(i)), Status::kOk);
  }

  BackingMemory& memory() { return world_->memory(); }
  void fill_home(std::uint32_t frame, int value) {
    const auto home = memory().home(FrameIndex(frame));
    std::memset(home.data(), value, home.size());
  }
  static bool all_are(std::span<const std::byte> bytes, int value) {
    return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
  }

  std::unique_ptr<MemoryWorld> world_;
};

TEST_P(BackingMemoryTest, AHomeIsOneBlockLarge) {
  for (std::uint32_t i = 0; i < kFrames; ++i) EXPECT_EQ(memory().home(FrameIndex(i)).size(), kBytes);
}

TEST_P(BackingMemoryTest, FramesKeepApart) {
  for (std::uint32_t i = 0; i < kFrames; ++i) fill_home(i, static_cast<int>(i) + 1);
  for (std::uint32_t i = 0; i < kFrames; ++i) memory().attach(FrameIndex(i), BlockIndex(kBlocks - 1 - i));
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    EXPECT_TRUE(all_are(world_->bytes(BlockIndex(kBlocks - 1 - i)), static_cast<int>(i) + 1));
  }
  std::ranges::fill(world_->bytes(BlockIndex(kBlocks - 2)), std::byte{9});
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_EQ(memory().detach(BlockIndex(kBlocks - 1 - i), FrameIndex(i)), Status::kOk);
  }
  EXPECT_TRUE(all_are(memory().home(FrameIndex(0)), 1));
  EXPECT_TRUE(all_are(memory().home(FrameIndex(1)), 9));
  EXPECT_TRUE(all_are(memory().home(FrameIndex(2)), 3));
}

TEST_P(BackingMemoryTest, AFrameGoesFromBlockToBlock) {
  fill_home(0, 0);
  for (std::uint32_t i = 0; i < 4 * kBlocks; ++i) {
    const BlockIndex block(i * 5 % kBlocks);
    memory().attach(FrameIndex(0), block);
    EXPECT_TRUE(all_are(world_->bytes(block), static_cast<int>(i)));
    std::ranges::fill(world_->bytes(block), static_cast<std::byte>(i + 1));
    ASSERT_EQ(memory().detach(block, FrameIndex(0)), Status::kOk);
  }
}

TEST_P(BackingMemoryTest, AFrameCanBeGivenBackAndMadeAnew) {
  fill_home(1, 77);
  for (int i = 0; i < 3; ++i) {
    memory().destroy(FrameIndex(0));
    ASSERT_EQ(memory().create(FrameIndex(0)), Status::kOk);
    fill_home(0, i);
    memory().attach(FrameIndex(0), BlockIndex(2));
    EXPECT_TRUE(all_are(world_->bytes(BlockIndex(2)), i));
    ASSERT_EQ(memory().detach(BlockIndex(2), FrameIndex(0)), Status::kOk);
  }
  EXPECT_TRUE(all_are(memory().home(FrameIndex(1)), 77));
}

TEST_P(BackingMemoryTest, AFailedBlockCanBeAttachedAgain) {
  memory().fail(BlockIndex(3));
  memory().fail(BlockIndex(3));
  fill_home(2, 5);
  memory().attach(FrameIndex(2), BlockIndex(3));
  EXPECT_TRUE(all_are(world_->bytes(BlockIndex(3)), 5));
  memory().wake(BlockIndex(3));
  EXPECT_TRUE(all_are(world_->bytes(BlockIndex(3)), 5));
  EXPECT_EQ(memory().detach(BlockIndex(3), FrameIndex(2)), Status::kOk);
}

const char* title(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kMove ? "Move" : info.param == Kind::kRemap ? "Remap" : "Sim";
}

INSTANTIATE_TEST_SUITE_P(Drivers, BackingMemoryTest, testing::Values(Kind::kMove, Kind::kRemap, Kind::kSim), title);

}  // namespace
}  // namespace ebb::conformance
