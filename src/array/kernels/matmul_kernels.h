// c = a · b for some rows: the plain kernel under matmul(). Pure; called by one task for its own rows of c.
#pragma once

#include <cstdint>

#include "array/kernels/kernel.h"

namespace ebb::array {

// a: rows × depth with any strides; b: depth × columns and c: rows × columns in C order. Strides in elements.
struct MatrixBlock {
  const void* a;
  const void* b;
  void* c;
  std::int64_t rows, depth, columns;
  std::int64_t a_row_stride, a_column_stride;
};
void multiply_block(const MatrixBlock& block, Compute type);

}  // namespace ebb::array
