// DeviceRuntime with work that a real GPU can do too, fills and copies: on the software driver always, on a GPU where
// there is one. Tensors of three times GPU memory are filled in one stream and read back in another.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "drivers/cuda/cuda_api.h"
#include "gpu_program.h"

namespace ebb {
namespace {

class RunTest : public testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    const bool on_gpu = GetParam() == World::kGpu;
    if (!on_gpu) soft::reset();
    options_ = gpu_options(16, 24, on_gpu ? "1GiB" : "16MiB");
    if (on_gpu) {
      options_.block_bytes = 2 * kMiB;
      options_.device_memory = 16 * options_.block_bytes;
      options_.memory = (24 + 4) * options_.block_bytes;
      options_.cuda_library = "libcuda.so.1";
    }
    std::string reason;
    const Status status = cuda::Api::load(options_.cuda_library, api_, reason);
    if (on_gpu && status != Status::kOk) GTEST_SKIP() << "no GPU: " << reason;
    ASSERT_EQ(status, Status::kOk) << reason;
    if (const cuda::Result result = api_.init(0); on_gpu && result != cuda::kSuccess) {
      GTEST_SKIP() << "no GPU: " << api_.text(result);
    }
    ASSERT_EQ(api_.context_retain(&context_, 0), cuda::kSuccess);
    ASSERT_EQ(api_.context_push(context_), cuda::kSuccess);
    for (cuda::Stream& stream : streams_) ASSERT_EQ(api_.stream_create(&stream, cuda::kStreamNonBlocking), 0);
    ASSERT_EQ(api_.host_allocate(&host_, kTensors * options_.block_bytes, 0), cuda::kSuccess);
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    EXPECT_EQ(api_.host_free(host_), cuda::kSuccess);
    for (cuda::Stream stream : streams_) EXPECT_EQ(api_.stream_destroy(stream), cuda::kSuccess);
    cuda::Context popped = nullptr;
    EXPECT_EQ(api_.context_pop(&popped), cuda::kSuccess);
    EXPECT_EQ(api_.context_release(0), cuda::kSuccess);
    if (GetParam() != World::kSoft) return;
    expect_clean();
  }
  // One launch around `start`, which gives the stream its work.
  template <typename Start>
  void launch(DeviceRuntime& runtime, cuda::Stream stream, void* tensor, Start start) {
    const Access access{tensor, options_.block_bytes, tensor};
    const std::uint64_t ticket = runtime.announce_on(stream, 1, {&access, 1});
    EXPECT_EQ(start(reinterpret_cast<cuda::Pointer>(tensor)), cuda::kSuccess);
    runtime.retire(ticket);
  }

  static constexpr std::size_t kTensors = 48;
  Options options_;
  cuda::Api api_;
  cuda::Context context_ = nullptr;
  cuda::Stream streams_[2] = {};
  void* host_ = nullptr;
};

TEST_P(RunTest, FillsAndReadsThreeTimesGpuMemory) {
  const std::size_t bytes = options_.block_bytes;
  const std::shared_ptr<DeviceRuntime> runtime = DeviceRuntime::open(options_);
  std::vector<void*> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.push_back(runtime->allocate(bytes));
    launch(*runtime, streams_[0], tensors[i],
           [&](cuda::Pointer at) { return api_.fill(at, static_cast<unsigned char>(i + 1), bytes, streams_[0]); });
  }
  // The other stream comes after the first: the program's own business.
  cuda::Event between = nullptr;
  ASSERT_EQ(api_.event_create(&between, cuda::kEventWithoutTiming), cuda::kSuccess);
  ASSERT_EQ(api_.event_record(between, streams_[0]), cuda::kSuccess);
  ASSERT_EQ(api_.stream_wait(streams_[1], between, 0), cuda::kSuccess);
  auto* const seen = static_cast<std::byte*>(host_);
  for (std::size_t i = 0; i < kTensors; ++i) {
    launch(*runtime, streams_[1], tensors[i],
           [&](cuda::Pointer at) { return api_.copy_out(seen + i * bytes, at, bytes, streams_[1]); });
  }
  runtime->synchronize();
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::span<const std::byte> tensor(seen + i * bytes, bytes);
    const auto expected = static_cast<std::byte>(i + 1);
    EXPECT_TRUE(std::ranges::all_of(tensor, [&](std::byte value) { return value == expected; })) << "tensor " << i;
  }
  EXPECT_GE(runtime->stats().evicted_bytes, 32 * bytes);
  for (void* tensor : tensors) runtime->deallocate_on(tensor, streams_[1]);
  EXPECT_EQ(api_.event_destroy(between), cuda::kSuccess);
}

INSTANTIATE_TEST_SUITE_P(All, RunTest, testing::Values(World::kSoft, World::kGpu), name_of);

}  // namespace
}  // namespace ebb
