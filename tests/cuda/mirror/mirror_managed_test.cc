// CudaMirror on managed memory: more than its Runtime keeps in memory, announced around each launch, on both memory
// drivers. The software driver finds what is absent while a kernel runs, before it and after it.
#include <numeric>
#include <thread>
#include <vector>

#include "drivers/cuda/cuda_api.h"
#include "mirror_program.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBudget = 24 * kMiB;
constexpr std::size_t kCount = 1 << 19;  // floats: 2 MiB

struct Way {
  const char* memory_driver;
  bool on_gpu;
};

class CudaMirrorManaged : public CudaMirrorBase, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    open(GetParam().on_gpu);
    if (mirror_ == nullptr) return;
    Options options;
    options.memory = kBudget;
    options.block_bytes = 256 * kKiB;
    options.flash = testing::TempDir();
    options.flash_bytes = 256 * kMiB;
    options.policy = "window";
    options.flash_driver = "threads";
    options.memory_driver = GetParam().memory_driver;
    try {
      runtime_ = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override {
    for (float* data : made_) runtime_->deallocate(data);
    close();
  }
  float* make(float first) {
    auto* const data = static_cast<float*>(runtime_->allocate(kCount * sizeof(float)));
    std::iota(data, data + kCount, first);
    made_.push_back(data);
    return data;
  }

  std::shared_ptr<Runtime> runtime_;
  std::vector<float*> made_;
};

std::string way_name(const testing::TestParamInfo<Way>& way) { return way.param.on_gpu ? "Gpu" : "Soft"; }
INSTANTIATE_TEST_SUITE_P(Move, CudaMirrorManaged, testing::Values(Way{"move", false}, Way{"move", true}), way_name);
INSTANTIATE_TEST_SUITE_P(Remap, CudaMirrorManaged, testing::Values(Way{"remap", false}, Way{"remap", true}), way_name);

TEST_P(CudaMirrorManaged, LaunchesOnMoreThanTheBudget) {
  std::vector<float*> x, y;
  for (int i = 0; i < 12; ++i) {
    x.push_back(make(static_cast<float>(i)));
    y.push_back(make(0));  // 48 MiB in all
  }
  for (std::size_t i = 0; i < x.size(); ++i) scale(x[i], y[i], static_cast<float>(i + 1), kCount, runtime_.get());
  for (std::size_t i = 0; i < x.size(); ++i) expect_scaled(x[i], y[i], static_cast<float>(i + 1), kCount);
  EXPECT_GT(runtime_->stats().evicted_bytes, 0u);
  EXPECT_LE(runtime_->stats().peak_resident_bytes, kBudget);
}

// One thread's kernels run on managed memory while another's touches take it away.
TEST_P(CudaMirrorManaged, WhatAKernelUsesStays) {
  float* const x = make(1);
  float* const y = make(0);
  std::vector<float*> others;
  for (int i = 0; i < 14; ++i) others.push_back(make(0));
  std::thread toucher([&] {
    for (int round = 0; round < 3; ++round) {
      for (float* data : others) data[round] += 1;
    }
  });
  const std::string why = said(Status::kOk, [&] {
    for (int round = 1; round <= 6; ++round) scale(x, y, static_cast<float>(round), kCount, runtime_.get());
  });
  toucher.join();
  ASSERT_EQ(why, "");
  expect_scaled(x, y, 6, kCount);
}

TEST_P(CudaMirrorManaged, BesideOrdinaryMemory) {
  float* const x = make(3);
  std::vector<float> y(kCount);
  scale(x, y.data(), 2, kCount, runtime_.get());
  expect_scaled(x, y.data(), 2, kCount);  // it is over: the launch has waited
}

TEST_P(CudaMirrorManaged, MoreThanHalfTheBudgetIsRefused) {
  const std::size_t count = 2 * kBudget / 3 / sizeof(float);
  auto* const data = static_cast<float*>(runtime_->allocate(count * sizeof(float)));
  std::vector<float> y(count);
  const std::string why =
      said(Status::kNoMemory, [&] { scale(data, y.data(), 2, static_cast<std::int64_t>(count), runtime_.get()); });
  EXPECT_TRUE(contains(why, "more than half of the 24.0 MiB") && contains(why, "split the launch")) << why;
  runtime_->deallocate(data);
}

TEST_P(CudaMirrorManaged, RefusedWhereOthersHoldTheRest) {
  float* const x = make(1);
  float* const y = make(0);
  const std::size_t bytes = kBudget * 3 / 8;
  auto* const other = static_cast<std::byte*>(runtime_->allocate(bytes));
  const Access access{other, bytes, other};
  const std::uint64_t ticket = runtime_->announce(1, {&access, 1});
  ASSERT_TRUE(runtime_->hold({&access, 1}));
  const std::string why = said(Status::kNoMemory, [&] { scale(x, y, 2, kCount, runtime_.get()); });
  EXPECT_TRUE(contains(why, "beside what others hold")) << why;
  runtime_->let_go({&access, 1});
  runtime_->retire(ticket);
  runtime_->deallocate(other);
  scale(x, y, 3, kCount, runtime_.get());
  expect_scaled(x, y, 3, kCount);
}

TEST_P(CudaMirrorManaged, OverItsEndIsRefused) {
  const auto kernel = mirror_->compile(kScale, "scale");
  const Use use = reads(reinterpret_cast<const std::byte*>(make(0)), std::size_t{1} << 46);
  const std::string why = said(Status::kInvalid, [&] { mirror_->launch(*kernel, {}, {}, {&use, 1}, runtime_.get()); });
  EXPECT_TRUE(contains(why, "one end is managed memory")) << why;
}

// Where it is not known that the kernel is over, its memory stays held; all else goes on.
TEST_P(CudaMirrorManaged, AFailedLaunchIsToldAndLeavesBothUsable) {
  if (!is_soft_) GTEST_SKIP() << "a GPU's driver does not fail when asked";
  float* const x = make(1);
  float* const y = make(0);
  for (const char* const function : {"cuEventCreate", "cuLaunchKernel", "cuEventRecord", "cuEventQuery"}) {
    SCOPED_TRACE(function);
    soft::fail_call(1, cuda::kOutOfMemory, function);
    EXPECT_TRUE(contains(said(Status::kNoMemory, [&] { scale(x, y, 2, 1000, runtime_.get()); }), "OUT_OF_MEMORY"));
    scale(x, y, 3, 1000, runtime_.get());
    expect_scaled(x, y, 3, 1000);
  }
}

// Why a Runtime is asked for: a GPU cannot wait for what is on flash.
TEST_P(CudaMirrorManaged, WithoutItsRuntimeAbsentMemoryIsFound) {
  if (!is_soft_) GTEST_SKIP() << "it would end CUDA in this process";
  float* const x = make(1);
  for (int i = 0; i < 14; ++i) make(0);
  std::vector<float> y(kCount);
  if (std::string(GetParam().memory_driver) == "remap") {
    const std::string why = said(Status::kInvalid, [&] { scale(x, y.data(), 2, kCount); });
    EXPECT_TRUE(contains(why, "with managed memory its Runtime")) << why;
    return;
  }
  scale(x, y.data(), 2, kCount);
  const std::string why = said(Status::kIoError, [&] { mirror_->synchronize(); });
  EXPECT_TRUE(contains(why, "CUDA_ERROR_ILLEGAL_ADDRESS") && contains(why, "no launch declared")) << why;
  EXPECT_TRUE(contains(said(Status::kIoError, [&] { scale(y.data(), y.data(), 1, 8); }), "is given up"));
  mirror_.reset();
  soft::reset();
}

}  // namespace
}  // namespace ebb
