// CudaStream on the software driver, NVRTC and cuBLAS: kernels, copies and products on more than GPU memory holds, and
// what is said where one of the libraries is missing or refuses.
#include <gtest/gtest.h>

#include <numeric>

#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/kernels/change_kernels.h"
#include "drivers/cuda/kernels/compiler.h"
#include "ebb/cuda/stream.h"
#include "gpu_program.h"
#include "watched_runtime.h"

namespace ebb {
namespace {

class KernelStreamTest : public testing::Test {
 protected:
  void SetUp() override { soft::reset(); }
  void TearDown() override {
    stream_.reset();
    runtime_.reset();
    expect_clean();
    soft::reset();
  }
  void open(std::uint32_t frames, std::uint32_t host, bool strict = false) {
    Options options = gpu_options(frames, host);
    options.device_strict = strict;
    runtime_ = std::make_shared<WatchedRuntime>(DeviceRuntime::open(options));
    stream_ = CudaStream::open(runtime_);
  }
  void scale(const float* x, float* y, float by, std::int64_t count) {
    const auto kernel = stream_->compile(kScale, "scale");
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    const Access used[] = {{x, bytes, x}, {y, bytes, y, 0, true, true}};
    const void* const parameters[] = {&x, &y, &by, &count};
    stream_->launch(*kernel, {static_cast<std::uint32_t>((count + 255) / 256), 256}, parameters, used);
  }
  template <typename T>
  T* on_gpu(const std::vector<T>& values) {
    auto* const data = static_cast<T*>(runtime_->allocate(values.size() * sizeof(T)));
    stream_->copy_in(data, std::as_bytes(std::span(values)));
    return data;
  }
  template <typename T>
  std::vector<T> from_gpu(const T* data, std::size_t count) {
    std::vector<T> values(count);
    stream_->copy_out(std::as_writable_bytes(std::span(values)), data);
    return values;
  }
  std::string refusal(const Options& options) {
    return said(Status::kUnsupported, [&] { CudaStream::open(DeviceRuntime::open(options)); });
  }

  std::shared_ptr<DeviceRuntime> runtime_;
  std::shared_ptr<CudaStream> stream_;
};

TEST_F(KernelStreamTest, KernelsOnMoreThanGpuMemory) {
  open(8, 16, true);
  constexpr std::int64_t kCount = 20000;  // two blocks each, and 16 pairs
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<float*> x, y;
  for (int i = 0; i < 16; ++i) {
    x.push_back(on_gpu(values));
    y.push_back(static_cast<float*>(runtime_->allocate(kCount * sizeof(float))));
    scale(x.back(), y.back(), static_cast<float>(i), kCount);
  }
  for (int i = 0; i < 16; ++i) {
    const std::vector<float> got = from_gpu(y[static_cast<std::size_t>(i)], kCount);
    for (std::size_t k = 0; k < kCount; k += 997) ASSERT_EQ(got[k], static_cast<float>(i) * values[k]);
  }
  EXPECT_GT(runtime_->stats().evicted_bytes, 0u);
  for (float* data : x) runtime_->deallocate(data);
  for (float* data : y) runtime_->deallocate(data);
}

TEST_F(KernelStreamTest, CopiesOfAnySizeAndPlace) {
  open(8, 8);
  std::vector<std::byte> values(5 * kGpuBlock + 13);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::byte(i * 31 >> 3);
  auto* const data = static_cast<std::byte*>(runtime_->allocate(values.size() + 100));
  stream_->copy_in(data + 7, values);
  EXPECT_EQ(from_gpu(data + 7, values.size()), values);
  stream_->copy_in(data + 50, std::span(values).first(3));
  EXPECT_EQ(from_gpu(data + 50, 3), std::vector(values.begin(), values.begin() + 3));
  EXPECT_EQ(from_gpu(data + 53, 10), std::vector(values.begin() + 46, values.begin() + 56));
  stream_->copy_in(data, {});
  runtime_->deallocate(data);
}

TEST_F(KernelStreamTest, TheSameTextIsCompiledOnce) {
  open(8, 8);
  EXPECT_EQ(stream_->compile(kScale, "scale"), stream_->compile(kScale, "scale"));
  EXPECT_EQ(soft::live().modules, 1u);
}

TEST_F(KernelStreamTest, CompilerAndDriverAreQuoted) {
  open(8, 8);
  constexpr const char* kNonsense = "extern \"C\" __global__ void f() { nonsense(); }";
  EXPECT_PRED2(contains, said(Status::kInvalid, [&] { stream_->compile(kNonsense, "f"); }), "nonsense");
  EXPECT_PRED2(contains, said(Status::kIoError, [&] { stream_->compile(kScale, "of_another_name"); }),
               "cuModuleGetFunction");
  EXPECT_EQ(soft::live().modules, 0u);
}

TEST_F(KernelStreamTest, WhatIsNotAnnouncedIsFound) {
  open(8, 8, true);
  constexpr std::int64_t kCount = 16;
  auto* const x = static_cast<float*>(runtime_->allocate(kGpuBlock));
  auto* const y = static_cast<float*>(runtime_->allocate(kGpuBlock));
  const auto kernel = stream_->compile(kScale, "scale");
  const float by = 2;
  const Access used[] = {{x, kGpuBlock, x}};  // but not y
  const void* const parameters[] = {&x, &y, &by, &kCount};
  EXPECT_THROW(
      {
        stream_->launch(*kernel, {1, kCount}, parameters, used);
        stream_->synchronize();
      },
      Error);
  EXPECT_FALSE(runtime_->failure().empty());
  stream_.reset();  // what it has is left to the driver
  runtime_.reset();
  soft::reset();
}

// Every layout of operands that cuBLAS reads, in tiles of every direction; products of whole numbers are exact.
template <typename T>
class Products {
 public:
  Products(DeviceRuntime& runtime, CudaStream& stream) : runtime_(runtime), stream_(stream) {}

  void check(std::int64_t rows, std::int64_t depth, std::int64_t columns, bool a_turned, bool b_turned) {
    const std::vector<T> a = numbers(rows * depth, 5), b = numbers(depth * columns, 7);
    T* const on_gpu[] = {put(a), put(b), put(std::vector<T>(static_cast<std::size_t>(rows * columns)))};
    CudaProduct product;
    product.dtype = dtype_of<T>();
    product.rows = rows, product.depth = depth, product.columns = columns;
    product.a = a_turned ? CudaMatrix{on_gpu[0], 1, rows, on_gpu[0]} : CudaMatrix{on_gpu[0], depth, 1, on_gpu[0]};
    product.b = b_turned ? CudaMatrix{on_gpu[1], 1, depth, on_gpu[1]} : CudaMatrix{on_gpu[1], columns, 1, on_gpu[1]};
    product.c = {on_gpu[2], columns, 1, on_gpu[2]};
    ASSERT_TRUE(stream_.multiply(product));
    std::vector<T> got(static_cast<std::size_t>(rows * columns));
    stream_.copy_out(std::as_writable_bytes(std::span(got)), on_gpu[2]);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; j += 1 + columns / 7) {
        T total = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          total += a[static_cast<std::size_t>(i * product.a.row_stride + k * product.a.column_stride)] *
                   b[static_cast<std::size_t>(k * product.b.row_stride + j * product.b.column_stride)];
        }
        ASSERT_EQ(got[static_cast<std::size_t>(i * columns + j)], total) << i << ", " << j;
      }
    }
    for (T* const data : on_gpu) runtime_.deallocate(data);
  }

 private:
  static std::vector<T> numbers(std::int64_t count, int modulus) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i * 11) % modulus - 2);
    return values;
  }
  T* put(const std::vector<T>& values) {
    auto* const data = static_cast<T*>(runtime_.allocate(values.size() * sizeof(T)));
    stream_.copy_in(data, std::as_bytes(std::span(values)));
    return data;
  }
  DeviceRuntime& runtime_;
  CudaStream& stream_;
};

TEST_F(KernelStreamTest, ProductsOfEveryLayout) {
  open(16, 16);
  for (const bool a_turned : {false, true}) {
    for (const bool b_turned : {false, true}) {
      SCOPED_TRACE(std::string(a_turned ? "a turned, " : "a, ") + (b_turned ? "b turned" : "b"));
      Products<float>(*runtime_, *stream_).check(7, 5, 9, a_turned, b_turned);
      Products<double>(*runtime_, *stream_).check(1, 13, 4, a_turned, b_turned);
      Products<float>(*runtime_, *stream_).check(6, 1, 1, a_turned, b_turned);
    }
  }
}

TEST_F(KernelStreamTest, ProductsLargerThanGpuMemory) {
  open(8, 64, true);  // 512 KiB
  for (const bool turned : {false, true}) {
    SCOPED_TRACE(turned);
    Products<float>(*runtime_, *stream_).check(40, 9000, 40, turned, turned);    // 1.4 MB each of a and b
    Products<double>(*runtime_, *stream_).check(1000, 8, 150, turned, !turned);  // 1.2 MB of c
  }
}

TEST_F(KernelStreamTest, ProductsThatCublasCannotRead) {
  open(8, 8);
  CudaProduct product;
  auto* const data = static_cast<float*>(runtime_->allocate(4096));
  product.rows = product.depth = product.columns = 2;
  product.a = product.b = product.c = {data, 2, 1, data};
  product.a = {data, 4, 2, data};
  EXPECT_FALSE(stream_->multiply(product));
  product.a = {data, -2, 1, data};
  EXPECT_FALSE(stream_->multiply(product));
  runtime_->deallocate(data);
}

TEST_F(KernelStreamTest, WithoutCublasThereAreNoProducts) {
  Options options = gpu_options(8, 8);
  options.cublas_library = "libcublas_of_nobody.so";
  runtime_ = DeviceRuntime::open(options);
  stream_ = CudaStream::open(runtime_);
  CudaProduct product;
  auto* const data = static_cast<float*>(runtime_->allocate(4096));
  product.rows = product.depth = product.columns = 2;
  product.a = product.b = product.c = {data, 2, 1, data};
  EXPECT_FALSE(stream_->multiply(product));
  runtime_->deallocate(data);
}

TEST_F(KernelStreamTest, WithoutNvrtcItIsRefused) {
  Options options = gpu_options(8, 8);
  options.nvrtc_library = "libnvrtc_of_nobody.so";
  EXPECT_PRED2(contains, refusal(options), "EBB_NVRTC_LIBRARY");
  options.nvrtc_library = "libc.so.6";
  EXPECT_PRED2(contains, refusal(options), "lacks nvrtcCreateProgram");
}

// Whatever call fails, it is told, and nothing is left.
TEST_F(KernelStreamTest, EveryCallMayFailWhenItIsOpened) {
  for (const char* const function :
       {"cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemHostAlloc", "cuEventCreate"}) {
    SCOPED_TRACE(function);
    runtime_ = DeviceRuntime::open(gpu_options(8, 8));
    for (const int nth : {1, 2, 3}) {
      soft::fail_call(static_cast<std::uint64_t>(nth), cuda::kOutOfMemory, function);
      try {
        CudaStream::open(runtime_);
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << error.what();
      }
    }
    soft::fail_call(0, 0);
    runtime_.reset();
    ASSERT_EQ(soft::live().total(), 0u);
  }
}

TEST_F(KernelStreamTest, AFailedStartIsToldAndLeavesItUsable) {
  open(8, 8);
  const std::vector<float> values(100, 3.0F);
  float* const x = on_gpu(values);
  float* const y = on_gpu(values);
  scale(x, y, 1, 100);
  soft::fail_call(1, cuda::kOutOfMemory, "cuLaunchKernel");
  EXPECT_THROW(scale(x, y, 2, 100), Error);
  scale(x, y, 4, 100);
  EXPECT_EQ(from_gpu(y, 100), std::vector<float>(100, 12.0F));
  runtime_->deallocate(x);
  runtime_->deallocate(y);
}

// NVIDIA's own NVRTC, where it is installed: it needs no GPU.
TEST(CudaCompiler, TakesTheKernelsThatTellWhatHasChanged) {
  cuda::Compiler compiler;
  std::string reason;
  if (cuda::Compiler::make(EBB_NVRTC, 90, compiler, reason) != Status::kOk) GTEST_SKIP() << reason;
  EXPECT_FALSE(compiler.compile(cuda::ChangeKernels::source()).empty());
}

TEST(CudaCompiler, MakesMachineCodeWhereItKnowsTheGpu) {
  cuda::Compiler compiler;
  std::string reason;
  if (cuda::Compiler::make(EBB_NVRTC, 90, compiler, reason) != Status::kOk) GTEST_SKIP() << reason;
  EXPECT_EQ(compiler.compile(kScale).substr(1, 3), "ELF");
  EXPECT_THROW(compiler.compile("extern \"C\" __global__ void f() { nonsense(); }"), Error);
  // A GPU of the future: for its driver to compile.
  ASSERT_EQ(cuda::Compiler::make(EBB_NVRTC, 990, compiler, reason), Status::kOk) << reason;
  EXPECT_NE(compiler.compile(kScale).find(".target sm_"), std::string::npos);
  // And one of the past.
  EXPECT_EQ(cuda::Compiler::make(EBB_NVRTC, 20, compiler, reason), Status::kUnsupported);
  EXPECT_NE(reason.find("compute capability 2.0"), std::string::npos) << reason;
}

}  // namespace
}  // namespace ebb
