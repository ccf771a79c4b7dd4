// Products of blocks that stay in the cache: parts of a and b are packed in the order in which the innermost loop reads
// them, and a tile of c stays in registers for a whole part (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", TOMS 34(3), 2008).
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

namespace hn = hwy::HWY_NAMESPACE;
using I = std::int64_t;

// A tile of c: so many rows, two vectors wide. Its sums fill most of the registers that there are.
constexpr I kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
template <typename T>
constexpr I kColumns = 2 * static_cast<I>(hn::MaxLanes(hn::ScalableTag<T>()));

// Bands of `width` lines, with what they have of one depth side by side; lines that are missing are 0.
template <typename T>
void pack(const T* from, I line_stride, I depth_stride, I lines, I depth, I width, T* to) {
  for (I line = 0; line < lines; line += width) {
    const I count = std::min(width, lines - line);
    const T* at = from + line * line_stride;
    for (I k = 0; k < depth; ++k, to += width, at += depth_stride) {
      for (I i = 0; i < count; ++i) to[i] = at[i * line_stride];
      std::fill(to + count, to + width, T{});
    }
  }
}

template <class V>
V add_product(V sum, V x, V y) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    return hn::MulAdd(x, y, sum);
  } else {
    return hn::Add(sum, hn::Mul(x, y));
  }
}

// Adds the product of a band of a and one of b to a tile of c.
template <typename T>
void multiply_tile(const T* a, const T* b, I depth, T* c, I stride) {
  const hn::ScalableTag<T> d;
  const I half = kColumns<T> / 2;
  hn::Vec<decltype(d)> left[kRows], right[kRows];
#pragma GCC unroll 12
  for (I r = 0; r < kRows; ++r) left[r] = right[r] = hn::Zero(d);
  for (I k = 0; k < depth; ++k, a += kRows, b += kColumns<T>) {
    const auto b_left = hn::Load(d, b), b_right = hn::Load(d, b + half);
#pragma GCC unroll 12
    for (I r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a[r]);
      left[r] = add_product(left[r], factor, b_left);
      right[r] = add_product(right[r], factor, b_right);
    }
  }
#pragma GCC unroll 12
  for (I r = 0; r < kRows; ++r, c += stride) {
    hn::StoreU(hn::Add(hn::LoadU(d, c), left[r]), d, c);
    hn::StoreU(hn::Add(hn::LoadU(d, c + half), right[r]), d, c + half);
  }
}

// Two packed parts: band by band of b, which stays in the first cache, with a, which stays in the second.
template <typename T>
void multiply_parts(const T* a, const T* b, I depth, const MatrixBlock& block) {
  T* const c = static_cast<T*>(block.c);
  for (I column = 0; column < block.columns; column += kColumns<T>) {
    for (I row = 0; row < block.rows; row += kRows) {
      T* const to = c + row * block.c_row_stride + column;
      const I rows = std::min(kRows, block.rows - row), columns = std::min(kColumns<T>, block.columns - column);
      if (rows == kRows && columns == kColumns<T>) {
        multiply_tile(a + row * depth, b + column * depth, depth, to, block.c_row_stride);
        continue;
      }
      T tile[kRows * kColumns<T>] = {};  // at the edge, where c has no room for all of it
      multiply_tile(a + row * depth, b + column * depth, depth, tile, kColumns<T>);
      for (I r = 0; r < rows; ++r) {
        for (I k = 0; k < columns; ++k) to[r * block.c_row_stride + k] += tile[r * kColumns<T> + k];
      }
    }
  }
}

// A row: what is used once is not worth packing.
template <typename T>
void multiply_row(const MatrixBlock& m) {
  T* const c = static_cast<T*>(m.c);
  for (I k = 0; k < m.depth; ++k) {
    const T factor = static_cast<const T*>(m.a)[k * m.a_column_stride];
    const T* const b = static_cast<const T*>(m.b) + k * m.b_row_stride;
    EBB_INDEPENDENT
    for (I j = 0; j < m.columns; ++j) c[j] += factor * b[j];
  }
}

template <typename T>
void multiply(const MatrixBlock& m, std::byte* scratch) {
  static_assert(kBlockRows % kRows == 0 && kBlockColumns % kColumns<T> == 0);
  T* const a = reinterpret_cast<T*>(scratch);
  T* const b = a + kBlockRows * kBlockDepth;
  for (I r = 0; r < m.rows; ++r) std::fill_n(static_cast<T*>(m.c) + r * m.c_row_stride, m.columns, T{});
  if (m.rows == 1 && m.b_column_stride == 1) return multiply_row<T>(m);
  for (I k = 0; k < m.depth; k += kBlockDepth) {
    const I depth = std::min(kBlockDepth, m.depth - k);
    pack(static_cast<const T*>(m.a) + k * m.a_column_stride, m.a_row_stride, m.a_column_stride, m.rows, depth, kRows,
         a);
    pack(static_cast<const T*>(m.b) + k * m.b_row_stride, m.b_column_stride, m.b_row_stride, m.columns, depth,
         kColumns<T>, b);
    multiply_parts(a, b, depth, m);
  }
}

void multiply_here(const MatrixBlock& block, Compute type, std::byte* scratch) {
  switch (type) {
    case Compute::kF32: return multiply<float>(block, scratch);
    case Compute::kF64: return multiply<double>(block, scratch);
    default: return multiply<std::uint64_t>(block, scratch);  // wraps, also for i64
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(multiply_here);

void multiply_block(const MatrixBlock& block, Compute type, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(multiply_here)(block, type, scratch);
}

}  // namespace ebb::array
#endif
