// Generated kernels: what has one, and that the CUDA C compiles, by NVRTC where that is installed. The OpenCL C runs in
// tests/opencl.
#include "array/source/source.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "operator_table.h"
#include "reference.h"

namespace ebb {
namespace {

using array_test::all_of;
using array_test::KeepLimits;
using array_test::takes;

using Program = void*;
struct Nvrtc {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
};

bool load(Nvrtc& api) {
  void* library = nullptr;
  for (const char* file : {EBB_NVRTC, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
    if (library == nullptr && *file != '\0') library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return false;
  api.create = reinterpret_cast<decltype(api.create)>(dlsym(library, "nvrtcCreateProgram"));
  api.compile = reinterpret_cast<decltype(api.compile)>(dlsym(library, "nvrtcCompileProgram"));
  api.log_size = reinterpret_cast<decltype(api.log_size)>(dlsym(library, "nvrtcGetProgramLogSize"));
  api.log = reinterpret_cast<decltype(api.log)>(dlsym(library, "nvrtcGetProgramLog"));
  api.destroy = reinterpret_cast<decltype(api.destroy)>(dlsym(library, "nvrtcDestroyProgram"));
  return api.create != nullptr && api.compile != nullptr && api.log_size != nullptr && api.log != nullptr &&
         api.destroy != nullptr;
}

void expect_compiles(const Nvrtc& api, const std::string& text) {
  Program program = nullptr;
  ASSERT_EQ(api.create(&program, text.c_str(), "ebb_pass.cu", 0, nullptr, nullptr), 0);
  const char* const options[] = {"--fmad=false"};
  const int status = api.compile(program, 1, options);
  std::size_t bytes = 0;
  api.log_size(program, &bytes);
  std::string log(bytes + 1, '\0');
  api.log(program, log.data());
  EXPECT_EQ(status, 0) << log << "\n" << text;
  api.destroy(&program);
}

TEST(CudaSource, CompilesForEveryOperatorAndType) {
  Nvrtc api{};
  if (!load(api)) GTEST_SKIP() << "no NVRTC: it comes with PyTorch for CUDA";
  const KeepLimits keep;
  set_combine_limits({4096, 4096, std::uint64_t{1} << 40});
  for (DType dtype : {DType::kBool, DType::kI8, DType::kI64, DType::kU64, DType::kF16, DType::kF32, DType::kF64}) {
    SCOPED_TRACE(name(dtype));
    const Array x = full({6, 5}, 1.0, dtype), y = full({5}, 1.0, dtype);
    std::vector<Array> results;
    for (int op = 0; op < static_cast<int>(Op::kWhere); ++op) {
      if (static_cast<Op>(op) == Op::kCast || !takes(static_cast<Op>(op), dtype)) continue;
      results.push_back(static_cast<Op>(op) <= Op::kBitwiseNot ? unary(static_cast<Op>(op), x)
                                                               : binary(static_cast<Op>(op), x, y));
    }
    for (int to = 0; to < kDTypes; ++to) results.push_back(x.astype(static_cast<DType>(to)));
    expect_compiles(api, kernel_source(all_of(results, full_int({6, 5}, 1), dtype), Dialect::kCuda));
  }
}

TEST(CudaSource, CompilesForViewsNumbersAndStridedResults) {
  Nvrtc api{};
  if (!load(api)) GTEST_SKIP() << "no NVRTC: it comes with PyTorch for CUDA";
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Dims shape{3, 4, 5}, part{3, 1, 5};
    const Array a = array_test::random_view(rng, shape, DType::kF32);
    const Array b = array_test::random_view(rng, part, DType::kI16);
    const Array target = array_test::random_view(rng, shape, DType::kBF16);
    const auto source = array::generate((a * b + 3.0).node(), target.node()->shape, Dialect::kCuda);
    expect_compiles(api, source.text);
    expect_compiles(api, array::generate(scalar(2.0).node(), target.node()->shape, Dialect::kCuda).text);
  }
}

TEST(CudaSource, CompilesForEveryReductionAndType) {
  Nvrtc api{};
  if (!load(api)) GTEST_SKIP() << "no NVRTC: it comes with PyTorch for CUDA";
  const array::ReduceOrder order = array::reduce_order({4, 5, 6}, {1});
  for (int kind = 0; kind <= static_cast<int>(Reduce::kArgMax); ++kind) {
    for (DType dtype : {DType::kBool, DType::kI64, DType::kU64, DType::kF32, DType::kF64}) {
      SCOPED_TRACE(name(dtype) + std::string(", reduction ") + std::to_string(kind));
      const Array x = full({4, 5, 6}, 1.0, dtype).permute({2, 1, 0}).permute({2, 1, 0}), y = full({6}, 1.0, dtype);
      expect_compiles(api, array::generate_reduce(static_cast<Reduce>(kind), maximum(x, y).node(), order).text);
    }
  }
}

TEST(CudaSource, RefusesWhatIsNoPass) {
  EXPECT_THROW(kernel_source(full({3}, 1.0), Dialect::kCuda), Error);
  EXPECT_THROW(kernel_source(sum(full({3}, 1.0) + 1.0), Dialect::kOpenCl), Error);
  const Array x = full({3}, 2.0);
  EXPECT_EQ(kernel_source(x + 1.0, Dialect::kOpenCl), kernel_source(x + 1.0, Dialect::kOpenCl));
}

}  // namespace
}  // namespace ebb
