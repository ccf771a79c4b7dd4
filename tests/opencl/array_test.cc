// Arrays whose passes run on an OpenCL device: which passes go there, what they give, and in whose memory.
#include "ebb/array.h"

#include <cmath>
#include <cstring>

#include "array/test/reference.h"
#include "opencl_fixture.h"

namespace ebb::opencl_test {
namespace {

using array_test::random_shape;
using array_test::random_view;

class OpenClArrays : public OpenClTest {
 protected:
  void TearDown() override {
    use_opencl(nullptr);
    use_runtime(nullptr);
    OpenClTest::TearDown();
  }
  // Runs it; how many passes the device got.
  static std::uint64_t passes_on_device(const Array& lazy) {
    const std::uint64_t before = array_stats().on_device;
    lazy.evaluate();
    return array_stats().on_device - before;
  }
};

TEST_F(OpenClArrays, GiveWhatTheCpuGives) {
  use_opencl(open(), 1);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto expression = [&](Array& out) {
      Rng rng(seed);
      const DType dtype = seed % 2 == 0 ? DType::kF32 : DType::kI32;
      const Dims shape = random_shape(rng, 4, 12);
      const Array a = random_view(rng, shape, dtype), b = random_view(rng, shape, dtype);
      out = where(a < b, a * b - a, maximum(a, b) + scalar(2.0, dtype));
    };
    Array here, there;
    expression(there);
    EXPECT_EQ(passes_on_device(there), 1u);
    use_opencl(nullptr);
    expression(here);
    EXPECT_EQ(passes_on_device(here), 0u);
    use_opencl(open(), 1);
    EXPECT_EQ(here.astype(DType::kF64).to_vector<double>(), there.astype(DType::kF64).to_vector<double>());
  }
}

TEST_F(OpenClArrays, WhichPassesGoThere) {
  const Array x = uniform({1000}, 1).evaluate();
  EXPECT_EQ(passes_on_device(x + 1.0), 0u);
  const auto device = open();
  use_opencl(device, 1000);
  EXPECT_EQ(passes_on_device(x + 1.0), 1u);
  EXPECT_EQ(passes_on_device(x.slice(0, {0, 999, 1}) + 1.0), 0u);  // too few
  EXPECT_EQ(passes_on_device(sum(x * 2.0)), 0u);                   // a reduction
  const Array chain = (x * 2.0 + 1.0) / (sum(x) + 1.0);
  EXPECT_EQ(passes_on_device(chain), 1u);
  EXPECT_GT(device->stats().launches, 1u);
  const std::uint64_t compiled = device->stats().compiled;
  EXPECT_EQ(passes_on_device(uniform({4000}, 2).evaluate() + 7.0), 1u);  // the form of an expression is compiled once
  EXPECT_EQ(device->stats().compiled, compiled);
  EXPECT_THROW(use_opencl(device, 0), Error);
}

TEST_F(OpenClArrays, WhatTheDeviceRoundsOtherwiseStaysHere) {
  const Array x = uniform({1000}, 1).evaluate(), i = arange(0, 1000).evaluate();
  layer_->no_correct_division = true;
  use_opencl(open(), 1);
  EXPECT_EQ(passes_on_device(x * 2.0), 1u);
  EXPECT_EQ(passes_on_device(1.0 / (x + 1.0)), 0u);
  EXPECT_EQ(passes_on_device(sqrt(x)), 0u);
  EXPECT_EQ(passes_on_device(1.0 / (x.astype(DType::kF64) + 1.0)), 1u);
  layer_->no_denormals = true;
  use_opencl(open(), 1);
  EXPECT_EQ(passes_on_device(x * 2.0), 0u);
  EXPECT_EQ(passes_on_device(i * scalar_int(2)), 1u);
}

TEST_F(OpenClArrays, WhatTheDeviceHasNoRoomForRunsInPiecesOrHere) {
  layer_->buffer_bytes_max = 40000;
  const auto device = open({.path = OpenClPath::kStaged});
  use_opencl(device, 1);
  const Array x = arange(0, 20000, 1, DType::kF32).evaluate();
  const Array y = x * 2.0;
  const std::uint64_t before = device->stats().launches;
  EXPECT_EQ(passes_on_device(y), 1u);
  EXPECT_EQ(device->stats().launches - before, 3u);  // of 8192 elements
  EXPECT_EQ(y.to_vector<float>()[19999], 39998.0f);
  const Array gathered = x.flip({0}) * 2.0;  // in one piece, or not at all
  EXPECT_EQ(passes_on_device(gathered), 0u);
  EXPECT_EQ(gathered.to_vector<float>()[0], 39998.0f);
}

TEST_F(OpenClArrays, AFailedPassLeavesItsNodeLazy) {
  const auto device = open();
  use_opencl(device, 1);
  const Array x = full({1000}, 2.0).evaluate();
  const Array y = x * 3.0;
  layer_->calls = 0;
  layer_->fail_at = 3;
  layer_->error = Layer::kInvalidOperation;
  EXPECT_THROW(y.evaluate(), Error);
  EXPECT_TRUE(y.is_lazy());
  layer_->fail_at = -1;
  EXPECT_EQ(passes_on_device(y), 1u);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, 6.0f));
}

TEST_F(OpenClArrays, LargerThanTheBudgetOfTheirRuntime) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    layer_->reset();
    pretend(*layer_, way);
    Options options;
    options.memory = 64 * kMiB;
    options.flash = testing::TempDir();
    options.flash_bytes = 512 * kMiB;
    std::shared_ptr<Runtime> runtime;
    try {
      runtime = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    use_runtime(runtime);
    use_opencl(open());
    constexpr std::int64_t kCount = 8 << 20;  // 32 MiB each
    const Array x = arange(0, static_cast<double>(kCount), 1, DType::kI32).evaluate();
    const Array y = x * scalar_int(3, DType::kI32) + scalar_int(1, DType::kI32);
    EXPECT_EQ(passes_on_device(y), 1u);
    const Array z = y - x;
    EXPECT_EQ(passes_on_device(z), 1u);
    const Array swapped = y.reshape({2, kCount / 2}).flip({0}).copy() + x.reshape({2, kCount / 2});
    swapped.evaluate();
    const auto* const first = z.data_as<std::int32_t>();
    for (std::int64_t i = 0; i < kCount; i += 1009) ASSERT_EQ(first[i], 2 * i + 1);
    const auto* const second = swapped.data_as<std::int32_t>();
    for (std::int64_t i = 0; i < kCount / 2; i += 1009) ASSERT_EQ(second[i], 3 * (i + kCount / 2) + 1 + i);
    EXPECT_GT(runtime->stats().evicted_bytes + runtime->stats().clean_bytes, 0u);
    use_opencl(nullptr);
    use_runtime(nullptr);
  }
}

}  // namespace
}  // namespace ebb::opencl_test
