// Products of matrices of any size: by cuBLAS, tile after tile, each of which fits into device memory twice, so that
// the next one is fetched while one is computed.
#include <algorithm>
#include <limits>

#include "drivers/cuda/kernels/kernel_launch.h"

namespace ebb {
namespace {

constexpr std::int64_t kIntMax = std::numeric_limits<int>::max();

// How cuBLAS, which counts down columns, sees a matrix in rows: `line` elements from one to the next.
struct Seen {
  bool is_transposed;
  int line;
};

// False: one of the strides has to be 1, and the other as long as a line.
bool see(const CudaMatrix& matrix, std::int64_t rows, std::int64_t columns, Seen& seen) {
  const std::int64_t lines_of_rows = columns == 1 || matrix.column_stride == 1 ? matrix.row_stride : 0;
  const std::int64_t lines_of_columns = rows == 1 || matrix.row_stride == 1 ? matrix.column_stride : 0;
  if (rows == 1 && matrix.column_stride == 1) {
    seen = {false, static_cast<int>(std::min(columns, kIntMax))};
  } else if (lines_of_rows >= columns && lines_of_rows <= kIntMax && lines_of_rows > 0) {
    seen = {false, static_cast<int>(lines_of_rows)};
  } else if (lines_of_columns >= rows && lines_of_columns <= kIntMax && lines_of_columns > 0) {
    seen = {true, static_cast<int>(lines_of_columns)};
  } else {
    return false;
  }
  return true;
}

Access access_of(const CudaProduct& product, const CudaMatrix& matrix, std::int64_t rows, std::int64_t columns,
                 bool written) {
  const std::int64_t last = (rows - 1) * matrix.row_stride + (columns - 1) * matrix.column_stride;
  return {matrix.data, static_cast<std::size_t>(last + 1) * size_of(product.dtype), matrix.allocation, 0, written,
          false};
}

std::array<Access, 3> accesses_of(const CudaProduct& product) {
  return {access_of(product, product.a, product.rows, product.depth, false),
          access_of(product, product.b, product.depth, product.columns, false),
          access_of(product, product.c, product.rows, product.columns, true)};
}

// Halves what makes the largest of the three matrices shorter; false: all are as small as they can be.
bool halve(CudaProduct& tile) {
  const std::array<Access, 3> accesses = accesses_of(tile);
  const auto shorten = [](const CudaMatrix& matrix, std::int64_t& rows, std::int64_t& columns) {
    std::int64_t& outer = matrix.row_stride >= matrix.column_stride ? rows : columns;
    std::int64_t& inner = &outer == &rows ? columns : rows;
    std::int64_t& chosen = outer > 1 ? outer : inner;
    if (chosen == 1) return false;
    chosen = (chosen + 1) / 2;
    return true;
  };
  const std::size_t largest = std::max({accesses[0].bytes, accesses[1].bytes, accesses[2].bytes});
  if (accesses[1].bytes == largest && shorten(tile.b, tile.depth, tile.columns)) return true;
  if (accesses[0].bytes == largest && shorten(tile.a, tile.rows, tile.depth)) return true;
  return shorten(tile.c, tile.rows, tile.columns) || shorten(tile.a, tile.rows, tile.depth);
}

CudaMatrix part_of(const CudaMatrix& matrix, DType dtype, std::int64_t row, std::int64_t column) {
  const std::int64_t offset = row * matrix.row_stride + column * matrix.column_stride;
  CudaMatrix part = matrix;
  part.data = static_cast<const std::byte*>(matrix.data) + offset * static_cast<std::int64_t>(size_of(dtype));
  return part;
}

}  // namespace

// The sizes of the largest tile, at the first place; the others are no larger.
struct KernelStream::Tile {
  std::int64_t rows = 0, depth = 0, columns = 0;
};

bool KernelStream::make_tile(const CudaProduct& product, Tile& tile) const {
  CudaProduct first = product;
  first.rows = std::min(first.rows, kIntMax);
  first.depth = std::min(first.depth, kIntMax);
  first.columns = std::min(first.columns, kIntMax);
  const auto is_long = [&](const Access& access) { return access.bytes > runtime_->options().block_bytes; };
  while (!fits(accesses_of(first), 2) && std::ranges::any_of(accesses_of(first), is_long)) halve(first);
  while (!fits(accesses_of(first), 1)) {
    if (!halve(first)) return false;
  }
  tile = {first.rows, first.depth, first.columns};
  return true;
}

bool KernelStream::find_cublas() {
  if (cublas_sought_) return cublas_handle_ != nullptr;
  cublas_sought_ = true;
  if (cuda::Cublas::load(runtime_->options().cublas_library, cublas_) != Status::kOk) return false;
  const cuda::Current current(api_, context_);
  if (cublas_.create(&cublas_handle_) != 0) {
    cublas_handle_ = nullptr;
    throw Error(Status::kNoMemory,
                "the GPU has no memory left for cuBLAS: give less with --device-memory "
                "(EBB_DEVICE_MEMORY)");
  }
  if (cublas_.set_stream(cublas_handle_, stream_) != 0) throw Error(Status::kIoError, "cuBLAS takes no stream");
  return true;
}

bool KernelStream::multiply(const CudaProduct& product) {
  const Lock lock(mutex_);
  Seen seen;
  Tile tile;
  if (!see(product.a, product.rows, product.depth, seen) || !see(product.b, product.depth, product.columns, seen) ||
      !see(product.c, product.rows, product.columns, seen) || seen.is_transposed || !make_tile(product, tile) ||
      !find_cublas()) {
    return false;
  }
  for (std::int64_t row = 0; row < product.rows; row += tile.rows) {
    for (std::int64_t column = 0; column < product.columns; column += tile.columns) {
      for (std::int64_t depth = 0; depth < product.depth; depth += tile.depth) {
        CudaProduct part;
        part.dtype = product.dtype;
        part.rows = std::min(tile.rows, product.rows - row);
        part.columns = std::min(tile.columns, product.columns - column);
        part.depth = std::min(tile.depth, product.depth - depth);
        part.a = part_of(product.a, product.dtype, row, depth);
        part.b = part_of(product.b, product.dtype, depth, column);
        part.c = part_of(product.c, product.dtype, row, column);
        multiply(part, depth > 0);
      }
    }
  }
  return true;
}

// Rows are columns to cuBLAS: it computes the transposed product of the transposed matrices.
void KernelStream::multiply(const CudaProduct& part, bool accumulate) {
  Seen a;
  Seen b;
  Seen c;
  // A part has the strides of the whole; only a single row or column may be seen otherwise.
  if (!see(part.a, part.rows, part.depth, a) || !see(part.b, part.depth, part.columns, b) ||
      !see(part.c, part.rows, part.columns, c)) {
    throw Error(Status::kInvalid, "a part of a product has strides that cuBLAS cannot read");
  }
  const auto operation = [](const Seen& seen) {
    return seen.is_transposed ? cuda::Cublas::kTransposed : cuda::Cublas::kPlain;
  };
  const int rows = static_cast<int>(part.rows);
  const int depth = static_cast<int>(part.depth);
  const int columns = static_cast<int>(part.columns);
  const std::array<Access, 3> accesses = accesses_of(part);
  const cuda::Current current(api_, context_);
  const Launch announced(*runtime_, stream_, op_of("product of matrices"), accesses);
  const auto run = [&](auto call, auto one) {
    using T = decltype(one);
    const T beta = accumulate ? T{1} : T{0};
    return call(cublas_handle_, operation(b), operation(a), columns, rows, depth, &one,
                static_cast<const T*>(part.b.data), b.line, static_cast<const T*>(part.a.data), a.line, &beta,
                static_cast<T*>(const_cast<void*>(part.c.data)), c.line);
  };
  const int status = part.dtype == DType::kF64 ? run(cublas_.multiply_f64, 1.0) : run(cublas_.multiply_f32, 1.0F);
  if (status != 0) {
    const std::string failure = runtime_->failure();
    throw Error(Status::kIoError, failure.empty() ? "cuBLAS failed with status " + std::to_string(status) : failure);
  }
}

}  // namespace ebb
