// matmul: shapes and batches here; the product of two matrices by oneDNN (f32), or by our own kernel, block by block.
#include <algorithm>

#include "array/kernels/matmul_kernels.h"
#include "array/ops/operands.h"
#include "array/pass/executor.h"
#include "array/pass/pass.h"

#ifdef EBB_ARRAY_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace ebb {
namespace {

using array::invalid;

// The strides of the last two dimensions of an operand.
struct Matrix {
  const std::byte* data;
  std::int64_t row_stride, column_stride;
};

struct Product {
  std::int64_t rows, depth, columns;
  DType dtype;
};

Dims batch_of(const Dims& sizes) { return {sizes.begin(), sizes.end() - 2}; }

DType product_type(DType dtype) {
  if (dtype == DType::kBool) invalid("matmul", "bool has no products; convert with astype()");
  return is_float(dtype)            ? (dtype == DType::kF64 ? dtype : DType::kF32)
         : is_signed_integer(dtype) ? DType::kI64
                                    : DType::kU64;
}

#ifdef EBB_ARRAY_ONEDNN
// BLAS can read a matrix if one of the strides is 1, and the other at least as long as a line. With one row or column
// both strides may be 1.
bool is_plain(const Matrix& m, std::int64_t columns) {
  return m.column_stride == 1 && m.row_stride >= std::max<std::int64_t>(columns, 1);
}
bool is_transposed(const Matrix& m, std::int64_t rows) {
  return m.row_stride == 1 && m.column_stride >= std::max<std::int64_t>(rows, 1);
}
bool is_blas(const Matrix& m, std::int64_t rows, std::int64_t columns) {
  return is_plain(m, columns) || is_transposed(m, rows);
}

bool multiply_onednn(const Matrix& a, const Matrix& b, std::byte* c, const Product& product) {
  if (product.dtype != DType::kF32 || !is_blas(a, product.rows, product.depth) ||
      !is_blas(b, product.depth, product.columns)) {
    return false;
  }
  const bool ta = !is_plain(a, product.depth), tb = !is_plain(b, product.columns);
  const dnnl_status_t status =
      dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', product.rows, product.columns, product.depth, 1.0f,
                 reinterpret_cast<const float*>(a.data), ta ? a.column_stride : a.row_stride,
                 reinterpret_cast<const float*>(b.data), tb ? b.column_stride : b.row_stride, 0.0f,
                 reinterpret_cast<float*>(c), product.columns);
  if (status != dnnl_success) {
    throw Error(Status::kNoMemory, "matmul: oneDNN failed with status " + std::to_string(static_cast<int>(status)));
  }
  return true;
}
#else
bool multiply_onednn(const Matrix&, const Matrix&, std::byte*, const Product&) { return false; }
#endif

void multiply_own(const Matrix& a, const Matrix& b, std::byte* c, const Product& product) {
  const auto element = static_cast<std::int64_t>(size_of(product.dtype));
  const std::int64_t across = (product.columns + array::kBlockColumns - 1) / array::kBlockColumns;
  const std::int64_t down = (product.rows + array::kBlockRows - 1) / array::kBlockRows;
  array::run_tasks(down * across, [&](std::int64_t task) {
    const std::int64_t row = task / across * array::kBlockRows, column = task % across * array::kBlockColumns;
    array::multiply_block(
        {a.data + row * a.row_stride * element, b.data + column * b.column_stride * element,
         c + (row * product.columns + column) * element, std::min(array::kBlockRows, product.rows - row), product.depth,
         std::min(array::kBlockColumns, product.columns - column), a.row_stride, a.column_stride, b.row_stride,
         b.column_stride, product.columns},
        array::compute_of(product.dtype), array::thread_scratch(array::kBlockScratch));
  });
}

// The matrix of batch number `index` in an operand whose batch dimensions broadcast to `batch`.
Matrix matrix_at(const Array& operand, const Dims& batch, std::int64_t index) {
  const array::ShapeInfo& shape = *operand.node()->shape;
  const std::size_t rank = shape.sizes.size(), own = rank - 2;
  std::int64_t offset = 0;
  for (std::size_t d = batch.size(); d-- > 0;) {
    const std::int64_t at = index % batch[d];
    index /= batch[d];
    const std::size_t missing = batch.size() - own;
    if (d >= missing && shape.sizes[d - missing] != 1) offset += at * shape.strides[d - missing];
  }
  const auto element = static_cast<std::int64_t>(size_of(shape.dtype));
  return {operand.node()->data() + offset * element, shape.strides[rank - 2], shape.strides[rank - 1]};
}

// Keeps what a product reads and writes in memory while it runs.
void multiply_batches(const Array& a, const Array& b, const Array& result, const Dims& batch, const Product& product) {
  array::AccessList accesses(0x6D61746D756Cull, "array matmul");
  for (const Array* one : {&a, &b, &result}) {
    accesses.add(one->node()->storage.get(), one->node()->data(), *one->node()->shape, false, one == &result);
  }
  std::int64_t count = 1;
  for (std::int64_t size : batch) count *= size;
  const std::int64_t bytes = product.rows * product.columns * static_cast<std::int64_t>(size_of(product.dtype));
  auto* const out = const_cast<std::byte*>(result.node()->data());
  array::run_announced(accesses.announced(), [&] {
    for (std::int64_t i = 0; i < count; ++i) {
      const Matrix left = matrix_at(a, batch, i), right = matrix_at(b, batch, i);
      if (multiply_onednn(left, right, out + i * bytes, product)) continue;
      multiply_own(left, right, out + i * bytes, product);
    }
  });
}

CudaMatrix cuda_matrix(const Matrix& matrix, const Array& of) {
  return {matrix.data, matrix.row_stride, matrix.column_stride, of.node()->storage->data};
}

// By cuBLAS, matrix after matrix. False: it cannot be had.
bool multiply_on(CudaStream& device, Array a, Array b, const Array& result, const Dims& batch, const Product& product) {
  const std::int64_t elements = product.rows * product.columns;
  for (std::int64_t i = 0; i < result.size() / elements; ++i) {
    CudaProduct one;
    one.dtype = product.dtype;
    one.rows = product.rows, one.depth = product.depth, one.columns = product.columns;
    one.c = {result.node()->data() + i * elements * static_cast<std::int64_t>(size_of(product.dtype)), product.columns,
             1, result.node()->storage->data};
    const auto run = [&] {
      one.a = cuda_matrix(matrix_at(a, batch, i), a), one.b = cuda_matrix(matrix_at(b, batch, i), b);
      return device.multiply(one);
    };
    if (run()) continue;
    a = a.contiguous(), b = b.contiguous();  // it may be that its strides are none that cuBLAS reads
    if (!run()) return false;
  }
  return true;
}

}  // namespace

Array matmul(const Array& a, const Array& b) {
  if (a.rank() == 0 || b.rank() == 0) invalid("matmul", "a 0-d array is no matrix; multiply with *");
  const DType type = promote(a.dtype(), b.dtype());
  const DType inner = product_type(type);
  if (a.rank() == 1 && b.rank() == 1) {
    if (a.size() != b.size()) {
      invalid("matmul", "vectors of " + std::to_string(a.size()) + " and " + std::to_string(b.size()) + " elements");
    }
    return sum(a.astype(inner) * b.astype(inner)).astype(type);
  }
  if (a.rank() == 1) return matmul(a.expand_dims(0), b).squeeze({-2});
  if (b.rank() == 1) return matmul(a, b.expand_dims(1)).squeeze({-1});
  const Product product{a.size(-2), a.size(-1), b.size(-1), inner};
  if (product.depth != b.size(-2)) {
    invalid("matmul", "the last size of " + array::to_text(a.shape()) + " is not the one before last of " +
                          array::to_text(b.shape()));
  }
  const Dims batch = array::broadcast_shapes("matmul", batch_of(a.shape()), batch_of(b.shape()));
  Dims sizes = batch;
  sizes.push_back(product.rows);
  sizes.push_back(product.columns);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return empty(sizes, type);
  if (product.depth == 0) return full(sizes, 0.0, type);
  if (inner != DType::kF32 && product.columns == 1) {  // each element is used once: a pass
    return sum(a.astype(inner) * b.astype(inner).transpose(), {-1}, true).astype(type);
  }
  const Array left = a.astype(inner).evaluate(), right = b.astype(inner).evaluate();
  if (const auto device = array::current_device(); device != nullptr && is_float(inner)) {
    const Array result = empty(sizes, inner);
    if (multiply_on(*device, array::to_place(left), array::to_place(right), result, batch, product)) {
      return result.astype(type);
    }
  }
  const auto multiply = [&](const Array& x, const Array& y) {
    const Array result = empty(sizes, inner);
    multiply_batches(x, y, result, batch, product);
    return result;
  };
  return array::run_on_host(multiply, left, right).astype(type);
}

}  // namespace ebb
