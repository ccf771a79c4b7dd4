// Kernels on managed memory: larger than its budget, on both memory drivers, from streams, and beside a mirror.
#include <algorithm>
#include <numeric>

#include "ebb/mirror.h"
#include "ebb/stream.h"
#include "opencl_fixture.h"

namespace ebb::opencl_test {
namespace {

constexpr std::uint64_t kBudget = 24 * kMiB;
constexpr std::size_t kCount = 4 << 20;  // floats: 16 MiB

std::shared_ptr<Runtime> open_runtime(const std::string& driver) {
  Options options;
  options.memory = kBudget;
  options.flash = testing::TempDir();
  options.flash_bytes = 256 * kMiB;
  options.policy = "window";
  options.memory_driver = driver;
  return Runtime::open(options);
}

class OpenClManaged : public OpenClTest, public testing::WithParamInterface<std::tuple<const char*, Way>> {
 protected:
  void SetUp() override {
    OpenClTest::SetUp();
    if (layer_ == nullptr) return;
    pretend(*layer_, std::get<1>(GetParam()));
    try {
      runtime_ = open_runtime(std::get<0>(GetParam()));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    device_ = open();
  }
  float* make(float first) {
    auto* const data = static_cast<float*>(runtime_->allocate(kCount * sizeof(float)));
    std::iota(data, data + kCount, first);
    return data;
  }

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<OpenClDevice> device_;
};

INSTANTIATE_TEST_SUITE_P(All, OpenClManaged,
                         testing::Combine(testing::Values("move", "remap"), testing::ValuesIn(ways())),
                         [](const testing::TestParamInfo<std::tuple<const char*, Way>>& way) {
                           return std::string(std::get<0>(way.param)) + std::get<1>(way.param).name;
                         });

// Three arrays of 16 MiB in 24 MiB: no launch of two of them finds both in memory at once.
TEST_P(OpenClManaged, LaunchesOnMoreThanTheBudget) {
  float* const x = make(0.0f);
  float* const y = make(1.0f);
  float* const z = make(2.0f);
  const auto kernel = device_->compile(kSource, "axpy");
  for (float* target : {y, z, y}) {
    const OpenClReport report = device_->launch(
        *kernel, {kCount}, {2.0f, reads(x, kCount, x), updates(target, kCount, target)}, runtime_.get());
    EXPECT_EQ(report.shared_bytes + report.copied_in_bytes, 2 * kCount * sizeof(float));
  }
  for (std::size_t i = 0; i < kCount; i += 997) {
    const float value = static_cast<float>(i);
    ASSERT_EQ(x[i], value);
    ASSERT_EQ(y[i], 2.0f * value + (2.0f * value + (value + 1.0f)));
    ASSERT_EQ(z[i], 2.0f * value + (value + 2.0f));
  }
  EXPECT_GT(runtime_->stats().evicted_bytes, 0u);
  EXPECT_LE(runtime_->stats().peak_resident_bytes, kBudget);
  for (float* data : {x, y, z}) runtime_->deallocate(data);
}

TEST_P(OpenClManaged, FromStreams) {
  float* const x = make(0.0f);
  float* const y = make(0.0f);
  const auto kernel = device_->compile(kSource, "axpy");
  {
    Stream stream = runtime_->stream();
    constexpr std::size_t kPart = kCount / 8;
    for (std::size_t at = 0; at < kCount; at += kPart) {
      stream.launch("axpy", {reads(x + at, kPart, x), updates(y + at, kPart, y)}, [=, this] {
        device_->launch(*kernel, {kPart}, {1.0f, reads(x + at, kPart, x), updates(y + at, kPart, y)}, runtime_.get());
      });
    }
    stream.synchronize();
    std::vector<float> gone(8);
    stream.launch("bad", {updates(y, kPart, y)}, [=, this] {
      device_->launch(*kernel, {1}, {1.0f, reads(reinterpret_cast<float*>(4096), 1), updates(y, kPart, y)},
                      runtime_.get());
    });
    EXPECT_THROW(stream.synchronize(), LaunchError);
  }
  for (std::size_t i = 0; i < kCount; i += 997) ASSERT_EQ(y[i], 2.0f * static_cast<float>(i));
  runtime_->deallocate(x);
  runtime_->deallocate(y);
}

// What a mirror's device has comes home when a kernel touches it, as when the CPU does.
TEST_P(OpenClWays, MemoryThatAMirrorHasMigrated) {
  std::unique_ptr<Mirror> mirror;
  try {
    mirror = Mirror::open({.devices = {DeviceKind::kPrivate}, .device_bytes = 16 * kMiB});
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  constexpr std::size_t kFloats = 1 << 20;
  auto* const x = static_cast<float*>(std::aligned_alloc(4096, kFloats * sizeof(float)));
  std::iota(x, x + kFloats, 0.0f);
  ASSERT_TRUE(mirror->migrate_to_device(0, x, kFloats * sizeof(float)).ok());
  std::vector<float> y(kFloats, 0.0f);
  device_->launch(*device_->compile(kSource, "axpy"), {kFloats}, {1.0f, reads(x, kFloats), updates(y.data(), kFloats)});
  EXPECT_TRUE(std::equal(y.begin(), y.end(), x));
  EXPECT_EQ(mirror->stats().device_pages, 0u);
  mirror.reset();
  std::free(x);
}

}  // namespace
}  // namespace ebb::opencl_test
