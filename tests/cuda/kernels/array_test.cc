// Arrays on a GPU: larger than its memory, in pieces of any view, beside arrays of the host, by every operator; and
// what is said and kept where something fails. What is compared is computed by the CPU.
#include <cmath>
#include <cstring>

#include "array/test/operator_table.h"
#include "array_world.h"
#include "drivers/cuda/cuda_api.h"
#include "ebb/stream.h"

namespace ebb {
namespace {

using array_test::random_shape;
using array_test::random_view;

class CudaArrayTest : public testing::Test {
 protected:
  void TearDown() override {
    use_runtime(nullptr);
    runtime_.reset();
    expect_clean();
  }
  void open(std::uint32_t frames, std::uint32_t host, bool strict = false) {
    runtime_ = use_soft_gpu(frames, host, strict);
  }
  // What the expression gives on the GPU has the bits that it has on the CPU. Returns how many passes the GPU had.
  template <typename Make>
  std::uint64_t expect_same(const Make& make) {
    const std::uint64_t before = array_stats().on_device;
    const Array there = array_test::here(make());
    const std::uint64_t passes = array_stats().on_device - before;
    use_runtime(nullptr);
    const Array wanted = make();
    EXPECT_TRUE(array_test::same_bits(there, wanted));
    use_runtime(runtime_);
    return passes;
  }

  std::shared_ptr<DeviceRuntime> runtime_;
};

TEST_F(CudaArrayTest, LargerThanGpuMemory) {
  open(16, 32, true);                                                     // 1 MiB of GPU memory, 2 MiB of host memory
  const auto numbers = [] { return arange(0, 600000, 1, DType::kF32); };  // 2.4 MB
  EXPECT_GE(expect_same([&] {
              const Array x = numbers().evaluate(), y = (x * 0.5 + 3.0).evaluate();
              return where(x < y, x * y - x, maximum(x, y) + 2.0) / (y + 1.0);
            }),
            2u);
  EXPECT_GT(runtime_->stats().evicted_bytes, 0u);
}

TEST_F(CudaArrayTest, BroadcastsAndViewsInPieces) {
  open(16, 64, true);
  const auto numbers = [](std::int64_t rows, std::int64_t columns) {
    return arange(0, static_cast<double>(rows * columns), 1, DType::kF32).reshape({rows, columns});
  };
  // A row and a column are read again and again; a cut is read where it lies.
  EXPECT_GE(expect_same([&] {
              const Array x = numbers(500, 700);
              return (x * x.slice(0, {3, 4, 1}) + x.slice(1, {5, 6, 1})) - x.slice(1, {{}, {}, -1});
            }),
            1u);
  EXPECT_GE(expect_same([&] { return numbers(300, 200).transpose() + numbers(200, 300); }), 1u);  // fits, gathered
  EXPECT_GE(expect_same([&] { return numbers(60, 50).reshape({60, 1, 50}) - numbers(40, 50); }), 1u);
}

TEST_F(CudaArrayTest, WhatDoesNotFitIsComputedHere) {
  open(8, 64);
  const auto x = [] { return arange(0, 1e6, 1, DType::kF32).reshape({1000, 1000}); };  // 4 MB, by columns
  EXPECT_EQ(expect_same([&] { return x().transpose().contiguous() * 1.0; }), 1u);      // the product
}

TEST_F(CudaArrayTest, AssignedThroughViews) {
  open(16, 32, true);
  EXPECT_GE(expect_same([&] {
              Array x = arange(0, 400000, 1, DType::kF32).reshape({400, 1000}).copy();
              x.slice(0, {1, {}, 3}).slice(1, {2, 900, 2}).assign(full({}, -1.0F));
              x.slice(1, {{}, 10, 1}).transpose().assign(arange(0, 400, 1, DType::kF32));
              x.diagonal().assign(x.select(1, 7));
              return x;
            }),
            3u);
}

TEST_F(CudaArrayTest, RandomExpressionsOfAnyType) {
  open(8, 16, true);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const DType dtype = seed % 3 == 0 ? DType::kF16 : seed % 3 == 1 ? DType::kF32 : DType::kI32;
    expect_same([&] {
      Rng rng(seed);
      const Dims shape = random_shape(rng, 4, 12);
      Dims part = shape;
      if (!part.empty()) part[rng.below(part.size())] = 1;
      const Array a = random_view(rng, shape, dtype), b = random_view(rng, part, dtype);
      return where(a < b, a * b - a, maximum(a, b) + scalar(2.0, dtype));
    });
  }
}

TEST_F(CudaArrayTest, ProductsLargerThanGpuMemory) {
  open(16, 64);
  const auto numbers = [](std::int64_t rows, std::int64_t columns, DType dtype) {
    return binary(Op::kRemainder, arange(0, static_cast<double>(rows * columns)), full_int({}, 7))
        .astype(dtype)
        .reshape({rows, columns});
  };
  // Whole numbers: exact, in whatever order.
  expect_same([&] { return matmul(numbers(300, 2000, DType::kF32), numbers(2000, 30, DType::kF32)); });
  expect_same([&] { return matmul(numbers(40, 700, DType::kF64).transpose(), numbers(40, 50, DType::kF64)); });
  expect_same([&] { return matmul(numbers(60, 50, DType::kF16), numbers(50, 20, DType::kF32)); });
  expect_same([&] { return matmul(numbers(30, 20, DType::kI32), numbers(20, 10, DType::kI32)); });  // here
  expect_same([&] {
    return matmul(numbers(6, 20, DType::kF32).reshape({2, 3, 4, 5}), numbers(15, 4, DType::kF32).reshape({3, 5, 4}));
  });
}

// Of whole numbers, so that sums are exact in whatever order: 1.2 MB where the GPU has 1 MiB.
TEST_F(CudaArrayTest, ReductionsLargerThanGpuMemory) {
  open(16, 64, true);
  const auto x = [](DType dtype, Dims shape) {
    const Array numbers = binary(Op::kRemainder, arange(0, 300000) * scalar_int(7919), full_int({}, 1009));
    return numbers.astype(dtype).reshape(std::move(shape)).evaluate();
  };
  for (const Dims& shape : {Dims{300, 1000}, Dims{3, 100000}, Dims{100000, 3}, Dims{300000, 1}}) {
    SCOPED_TRACE(shape[0]);
    for (const int d : {0, 1}) EXPECT_GE(expect_same([&] { return sum(x(DType::kF32, shape) * 2.0, {d}); }), 1u);
    EXPECT_GE(expect_same([&] { return argmax(x(DType::kI32, shape), 1); }), 1u);  // of equals the first
  }
  expect_same([&] { return sum(x(DType::kF32, {30, 100, 100}), {0, 2}); });
  EXPECT_GE(expect_same([&] { return argmax(x(DType::kI32, {300, 1000})); }), 1u);
  expect_same([&] { return argmin(where(x(DType::kF32, {600, 500}) > 1007.0, scalar(NAN), scalar(1.0)), 1); });
  expect_same([&] { return max(x(DType::kF16, {600, 500}).transpose(), {1}) + min(x(DType::kF16, {600, 500}), {0}); });
  expect_same([&] { return prod(x(DType::kI64, {600, 500}), {1}); });  // wraps
  expect_same([&] {
    return any(x(DType::kI32, {600, 500}) > 1000.0, {0}).astype(DType::kI32) +
           all(x(DType::kI32, {600, 500}) > 3.0, {0}).astype(DType::kI32);
  });
  expect_same([&] { return sum(x(DType::kI32, {300, 10, 100}).slice(1, {1, 9, 3}), {0, 2}); });
  const Array rows = softmax(normal({400, 700}, 3), 1);
  for (const float total : sum(rows, {1}).to_vector<float>()) ASSERT_NEAR(total, 1.0F, 1e-5);
}

TEST_F(CudaArrayTest, WhatAReductionDoesNotFindThereItTakesFromHere) {
  open(8, 64);
  EXPECT_EQ(sum(zeros({0, 3}), {0}).to_vector<float>(), std::vector<float>(3, 0.0F));
  // Down the columns of a transpose: a piece of few elements needs all of it.
  const Array x = arange(0, 1e6, 1, DType::kF32).reshape({1000, 1000});
  const Array total = sum(x.transpose().slice(0, {{}, {}, -1}) * 1.0);
  const std::uint64_t before = array_stats().on_device;
  total.evaluate();
  EXPECT_EQ(array_stats().on_device, before);
  EXPECT_EQ(total.to_vector<float>(), std::vector<float>(1, 499999500000.0F));
}

TEST_F(CudaArrayTest, BesideArraysOfTheHost) {
  const Array host = arange(0, 1000, 1, DType::kF32).evaluate();
  const Array lazy = host + 1.0;
  open(8, 16);
  const Array there = arange(0, 1000, 1, DType::kF32).evaluate();
  EXPECT_THROW(there.data(), Error);
  EXPECT_NE(host.data(), nullptr);
  EXPECT_EQ((host + there).to_vector<float>()[999], 1998.0F);
  EXPECT_EQ((lazy * there).to_vector<float>()[10], 110.0F);
  Array target = host.copy();
  target.slice(0, {0, 10, 1}).assign(there.slice(0, {10, 20, 1}));
  EXPECT_EQ(target.to_vector<float>()[9], 19.0F);
  use_runtime(nullptr);  // arrays stay where they are
  EXPECT_THROW(there.data(), Error);
  const Array here = there * 2.0 + host;
  EXPECT_EQ(here.evaluate().data_as<float>()[5], 15.0F);
  EXPECT_EQ(sum(there).item(), 499500.0);
  Array kept = host.copy();
  kept.assign(there + 1.0);
  EXPECT_EQ(kept.data_as<float>()[1], 2.0F);
}

TEST_F(CudaArrayTest, StreamsOfTheHostAreRefused) {
  open(8, 16);
  Options options;
  options.memory = 64 * kMiB;
  options.flash = testing::TempDir();
  options.flash_bytes = 64 * kMiB;
  std::shared_ptr<Runtime> other;
  try {
    other = Runtime::open(options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  Stream stream = other->stream();
  EXPECT_THROW((full({10}, 1.0) + 1.0).evaluate(stream), Error);
}

TEST_F(CudaArrayTest, AFailedPassLeavesItsNodeLazy) {
  open(8, 16);
  const Array x = full({1000}, 2.0).evaluate();
  const Array y = x * 3.0;
  soft::fail_call(1, cuda::kInvalidValue, "cuLaunchKernel");
  EXPECT_THROW(y.evaluate(), Error);
  EXPECT_TRUE(y.is_lazy());
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, 6.0F));
}

TEST_F(CudaArrayTest, ALostGpuIsToldByEveryPass) {
  open(8, 16);
  {
    const Array x = full({1000}, 2.0).evaluate();
    soft::lose(cuda::kUncorrectable);
    EXPECT_THROW((x * 3.0).evaluate(), Error);
    EXPECT_THROW(x.item(), Error);
    EXPECT_THROW(x.to_vector<float>(), Error);
  }
  use_runtime(nullptr);
  runtime_.reset();
  soft::reset();  // what was left to the driver
}

// Whatever call fails, and whether once or for good: a message or the right values, never wrong ones; and what is not
// lost works on, and leaves nothing behind.
TEST_F(CudaArrayTest, EveryCallMayFail) {
  const auto program = [] {
    const Array x = arange(0, 40000, 1, DType::kF32).evaluate();  // more than two blocks
    const Array m = (x * 2.0 + 1.0).reshape({200, 200});
    const float corner = matmul(m, m.transpose()).to_vector<float>()[1] / 1024;
    return std::vector<double>{sum(m, {1}).to_vector<double>()[3], static_cast<double>(corner)};
  };
  const std::vector<double> wanted = program();
  runtime_ = use_soft_gpu(8, 32);
  soft::fail_call(0, 0);
  EXPECT_EQ(program(), wanted);
  const std::uint64_t calls = soft::calls();
  use_runtime(nullptr);
  runtime_.reset();
  int told = 0, lost = 0;
#ifdef __SANITIZE_THREAD__
  constexpr std::uint64_t kDensity = 2;  // each run takes seconds
#else
  constexpr std::uint64_t kDensity = 8;
#endif
  for (std::uint64_t nth = 1; nth <= calls; nth += 1 + nth / kDensity) {
    for (const int error : {cuda::kOutOfMemory, cuda::kUncorrectable}) {
      SCOPED_TRACE("call " + std::to_string(nth) + " fails with " + std::to_string(error));
      runtime_ = use_soft_gpu(8, 32);
      soft::fail_call(nth, error);
      try {
        EXPECT_EQ(program(), wanted);
      } catch (const Error& failure) {
        EXPECT_NE(std::string(failure.what()), "");
        ++told;
      }
      soft::fail_call(0, 0);
      const bool is_lost = !runtime_->failure().empty();
      lost += is_lost ? 1 : 0;
      if (!is_lost) {
        EXPECT_EQ(program(), wanted);
      }
      use_runtime(nullptr);
      runtime_.reset();
      for (const std::string& violation : soft::take_violations()) ADD_FAILURE() << violation;
      if (!is_lost) {
        EXPECT_EQ(soft::live().total(), 0u);
      }
      soft::reset();
    }
  }
  EXPECT_GT(calls, 40u);
  EXPECT_GT(told, 10);
  EXPECT_GT(lost, 0);
}

TEST_F(CudaArrayTest, WithoutCompilerTheRuntimeIsNotTaken) {
  soft::reset();
  Options options = gpu_options(8, 8);
  options.nvrtc_library = "libnvrtc_of_nobody.so";
  EXPECT_THROW(use_runtime(DeviceRuntime::open(options)), Error);
  EXPECT_NE(full({3}, 1.0).data(), nullptr);  // as before
}

// On the software driver; and on a GPU, where there is one: what only that can show is how its own functions round.
class CudaOperatorTest : public testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    set_combine_limits({4096, 4096, std::uint64_t{1} << 40});
    if (GetParam() == World::kSoft) {
      runtime_ = use_soft_gpu(16, 32);
      return;
    }
    Options options = gpu_options(32, 32);
    options.block_bytes = 2 * kMiB;
    options.device_memory = 32 * options.block_bytes;
    options.memory = 64 * options.block_bytes;
    options.flash_bytes = kGiB;
    const Options found = options_from_environment();
    options.cuda_library = found.cuda_library;
    options.nvrtc_library = found.nvrtc_library;
    options.cublas_library = found.cublas_library;
    try {
      runtime_ = DeviceRuntime::open(options);
      use_runtime(runtime_);
    } catch (const Error& error) {
      GTEST_SKIP() << "no GPU: " << error.what();
    }
  }
  void TearDown() override {
    use_runtime(nullptr);
    runtime_.reset();
    if (GetParam() == World::kSoft) expect_clean();
  }
  // Made twice: for the GPU, and for here.
  template <typename Make>
  void expect_same(const Make& make) {
    const auto test = make();
    const Array there = array_test::here(test.all);
    use_runtime(nullptr);
    const Array wanted = make().all.evaluate();
    use_runtime(runtime_);
    const std::size_t element = size_of(there.dtype());
    const auto* const got = static_cast<const std::byte*>(there.data());
    const auto* const want = static_cast<const std::byte*>(wanted.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(there.size()); ++i) {
      ASSERT_TRUE(array_test::same_value(got + i * element, want + i * element, there.dtype()))
          << "element " << i << ", " << name(test.ops[i % test.ops.size()]) << " of " << name(there.dtype());
    }
  }
  template <typename T>
  void check_functions() {
    const auto test = array_test::functions<T>();
    const std::vector<T> got = test.all.template to_vector<T>();
    use_runtime(nullptr);
    const std::vector<T> want = array_test::functions<T>().all.template to_vector<T>();
    use_runtime(runtime_);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const array_test::Bound& bound = array_test::kBounds[i % std::size(array_test::kBounds)];
      ASSERT_LE(array_test::ulps_between(got[i], want[i]), bound.ulps + array_test::kOurUlps)
          << name(bound.op) << "(" << test.numbers[i] << ") is " << want[i] << " here, " << got[i] << " there";
    }
  }

  array_test::KeepLimits keep_;
  std::shared_ptr<DeviceRuntime> runtime_;
};

TEST_P(CudaOperatorTest, ExactOperatorsGiveTheSameBits) {
  for (int type = 0; type < kDTypes; ++type) {
    SCOPED_TRACE(name(static_cast<DType>(type)));
    expect_same([&] { return array_test::exact_operators(static_cast<DType>(type), [](Op) { return true; }); });
  }
}

TEST_P(CudaOperatorTest, ConversionsGiveTheSameBits) {
  for (int from = 0; from < kDTypes; ++from) {
    SCOPED_TRACE(name(static_cast<DType>(from)));
    expect_same([&] {
      Rng rng(static_cast<std::uint64_t>(from) + 100);
      const Array x = array_test::values(rng, 300, static_cast<DType>(from));
      std::vector<Array> results;
      for (int to = 0; to < kDTypes; ++to) results.push_back(x.astype(static_cast<DType>(to)));
      const Array number = binary(Op::kRemainder, arange(0, 300), full_int({}, kDTypes)).evaluate();
      return array_test::ExactOperators{array_test::all_of(results, number, DType::kF64), {Op::kCast}};
    });
  }
}

TEST_P(CudaOperatorTest, FunctionsAreWithinTheirBounds) {
  check_functions<float>();
  check_functions<double>();
}

TEST_P(CudaOperatorTest, ProductsAndPiecesLargerThanGpuMemory) {
  const std::int64_t size = GetParam() == World::kSoft ? 600 : 6000;  // three times its memory in all
  const Array x = binary(Op::kRemainder, arange(0, static_cast<double>(size * size)), full_int({}, 5))
                      .astype(DType::kF32)
                      .reshape({size, size});
  const Array y = matmul(x, x.transpose());
  const auto got = (y * 2.0 + x).to_vector<float>();
  for (std::int64_t i = 0; i < size; i += 97) {
    double total = 0;
    for (std::int64_t k = 0; k < size; ++k) total += static_cast<double>((i * size + k) % 5 * (k % 5));
    ASSERT_EQ(got[static_cast<std::size_t>(i * size)], 2 * total + static_cast<double>(i * size % 5));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaOperatorTest, testing::Values(World::kSoft, World::kGpu), name_of);

}  // namespace
}  // namespace ebb
