// A block of c = a · b: the kernel under matmul() for f64, integers, and what oneDNN does not read. Pure; called by one
// task for its own block of c.
//
// Invariant: in which order the products of an element of c are added depends on the shape alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "array/kernels/kernel.h"

namespace ebb::array {

// rows × depth times depth × columns, with any strides, in elements; of c those of a column are 1.
struct MatrixBlock {
  const void* a;
  const void* b;
  void* c;
  std::int64_t rows, depth, columns;
  std::int64_t a_row_stride, a_column_stride, b_row_stride, b_column_stride, c_row_stride;
};
// Of a block, at most; and what it wants of memory for the parts of a and b that it works on.
inline constexpr std::int64_t kBlockRows = 192, kBlockColumns = 256, kBlockDepth = 256;
inline constexpr std::size_t kBlockScratch = (kBlockRows + kBlockColumns) * kBlockDepth * 8;

void multiply_block(const MatrixBlock& block, Compute type, std::byte* scratch);

}  // namespace ebb::array
