// How large blocks are on a GPU where nobody says.
#include "runtime/device/block_size.h"

#include <gtest/gtest.h>

#include "gpu_program.h"

namespace ebb {
namespace {

TEST(GpuBlockSize, GrowsWithTheMemoryOfTheGpu) {
  EXPECT_EQ(usual_gpu_block_bytes(0), 2 * kMiB);
  EXPECT_EQ(usual_gpu_block_bytes(64 * kMiB), 2 * kMiB);
  EXPECT_EQ(usual_gpu_block_bytes(512 * kMiB - 1), 2 * kMiB);
  EXPECT_EQ(usual_gpu_block_bytes(512 * kMiB), 4 * kMiB);
  EXPECT_EQ(usual_gpu_block_bytes(5 * kGiB), 32 * kMiB);
  EXPECT_EQ(usual_gpu_block_bytes(17 * kGiB), 128 * kMiB);
  EXPECT_EQ(usual_gpu_block_bytes(1024 * kGiB), 128 * kMiB);
}

TEST(GpuBlockSize, StaysSmallWhereNothingSharesABlock) { EXPECT_EQ(usual_gpu_block_bytes(17 * kGiB, true), 2 * kMiB); }

TEST(GpuBlockSize, ManySmallBlocksOrFewLargeOnesAreOnTheirWayToFlash) {
  EXPECT_EQ(gpu_queue_depth(2 * kMiB, 1000, 8 * kGiB), 32u);
  EXPECT_EQ(gpu_queue_depth(2 * kMiB, 64, 8 * kGiB), 16u);
  EXPECT_EQ(gpu_queue_depth(128 * kMiB, 1000, 8 * kGiB), 4u);
  EXPECT_EQ(gpu_queue_depth(kGiB, 1000, 8 * kGiB), 2u);
  EXPECT_EQ(gpu_queue_depth(2 * kMiB, 4, 8 * kGiB), 2u);
  EXPECT_EQ(gpu_queue_depth(8 * kMiB, 128, 128 * kMiB), 4u);  // a quarter of host memory
}

// The software driver has too few addresses for blocks of this size: what is refused before it is asked says which it
// is.
TEST(GpuBlockSize, IsWhatARuntimeOpensWithIfNobodySays) {
  Options options = gpu_options(8, 8);
  const auto refusal = [&](std::uint64_t block_bytes, std::uint64_t device_memory) {
    options.block_bytes = block_bytes;
    options.device_memory = device_memory;
    options.memory = 16 * kMiB;
    return said(Status::kInvalid, [&] { DeviceRuntime::open(options); });
  };
  EXPECT_PRED2(contains, refusal(0, kMiB), "with blocks of 2.00 MiB at least");
  EXPECT_PRED2(contains, refusal(0, 5 * kGiB), "64.0 MiB of it are for what comes from");  // 2 blocks
  EXPECT_PRED2(contains, refusal(0, 10 * kGiB), "128 MiB of it are for what comes from");
  EXPECT_PRED2(contains, refusal(16 * kMiB, 80 * kGiB), "32.0 MiB of it are for what comes from");
}

}  // namespace
}  // namespace ebb
