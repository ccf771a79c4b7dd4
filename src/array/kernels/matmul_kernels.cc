// A block of a matrix product, for types and builds that oneDNN does not serve.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/matmul_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/highway.h>

#include <algorithm>

#include "array/kernels/matmul_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kDepth = 128, kWidth = 512;  // of b that stays in the cache

template <typename T>
void multiply(const MatrixBlock& block) {
  const T* const a = static_cast<const T*>(block.a);
  const T* const b = static_cast<const T*>(block.b);
  T* const c = static_cast<T*>(block.c);
  for (std::int64_t i = 0; i < block.rows; ++i) std::fill_n(c + i * block.columns, block.columns, T{});
  for (std::int64_t k0 = 0; k0 < block.depth; k0 += kDepth) {
    const std::int64_t k1 = std::min(block.depth, k0 + kDepth);
    for (std::int64_t j0 = 0; j0 < block.columns; j0 += kWidth) {
      const std::int64_t width = std::min(kWidth, block.columns - j0);
      for (std::int64_t i = 0; i < block.rows; ++i) {
        T* const out = c + i * block.columns + j0;
        for (std::int64_t k = k0; k < k1; ++k) {
          const T factor = a[i * block.a_row_stride + k * block.a_column_stride];
          const T* const row = b + k * block.columns + j0;
#pragma GCC ivdep
          for (std::int64_t j = 0; j < width; ++j) out[j] += factor * row[j];
        }
      }
    }
  }
}

void multiply_here(const MatrixBlock& block, Compute type) {
  switch (type) {
    case Compute::kF32: return multiply<float>(block);
    case Compute::kF64: return multiply<double>(block);
    default: return multiply<std::uint64_t>(block);  // wraps, also for i64
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(multiply_here);

void multiply_block(const MatrixBlock& block, Compute type) { HWY_DYNAMIC_DISPATCH(multiply_here)(block, type); }

}  // namespace ebb::array
#endif
