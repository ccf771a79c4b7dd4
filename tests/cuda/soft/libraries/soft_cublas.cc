// libcublas_soft.so: the entry points of cuBLAS that Ebbtide uses, on the software CUDA driver: plain loops as kernels,
// which declare to the byte what they touch.
//
// A handle belongs to one thread at a time, as a real one does.
#include <span>

#include "soft/soft_driver.h"

namespace {

using ebb::soft::Touch;

struct Handle {
  void* stream = nullptr;
};

constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;
constexpr int kExecutionFailed = 13;

// Columns lie one after the other, `line` apart.
template <typename T>
int multiply(Handle* handle, int a_operation, int b_operation, int rows, int columns, int depth, const T* alpha,
             const T* a, int a_line, const T* b, int b_line, const T* beta, T* c, int c_line) {
  if (handle == nullptr) return kNotInitialized;
  const bool a_turned = a_operation != 0;
  const bool b_turned = b_operation != 0;
  const int a_rows = a_turned ? depth : rows;
  const int b_rows = b_turned ? columns : depth;
  if (rows < 0 || columns < 0 || depth < 0 || a_line < a_rows || b_line < b_rows || c_line < rows) return kInvalidValue;
  if (rows == 0 || columns == 0) return 0;
  const auto extent = [](int line, int height, int width) {
    return (static_cast<std::size_t>(line) * static_cast<std::size_t>(width - 1) + static_cast<std::size_t>(height)) *
           sizeof(T);
  };
  const Touch touches[] = {{a, extent(a_line, a_rows, a_turned ? rows : depth), false},
                           {b, extent(b_line, b_rows, b_turned ? depth : columns), false},
                           {c, extent(c_line, rows, columns), true}};
  const T scale = *alpha;
  const T keep = *beta;
  const int failed = ebb::soft::launch(handle->stream, touches, [=] {
    for (std::ptrdiff_t j = 0; j < columns; ++j) {
      for (std::ptrdiff_t i = 0; i < rows; ++i) {
        T total = 0;
        for (std::ptrdiff_t k = 0; k < depth; ++k) {
          total +=
              (a_turned ? a[i * a_line + k] : a[k * a_line + i]) * (b_turned ? b[k * b_line + j] : b[j * b_line + k]);
        }
        T& element = c[j * c_line + i];
        element = scale * total + (keep == 0 ? T{0} : keep * element);
      }
    }
  });
  return failed == 0 ? 0 : kExecutionFailed;
}

}  // namespace

extern "C" {

EBB_SOFT int cublasCreate_v2(Handle** handle) {
  *handle = new Handle;
  return 0;
}

EBB_SOFT int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return 0;
}

EBB_SOFT int cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return 0;
}

EBB_SOFT int cublasSgemm_v2(Handle* handle, int a_operation, int b_operation, int rows, int columns, int depth,
                            const float* alpha, const float* a, int a_line, const float* b, int b_line,
                            const float* beta, float* c, int c_line) {
  return multiply(handle, a_operation, b_operation, rows, columns, depth, alpha, a, a_line, b, b_line, beta, c, c_line);
}

EBB_SOFT int cublasDgemm_v2(Handle* handle, int a_operation, int b_operation, int rows, int columns, int depth,
                            const double* alpha, const double* a, int a_line, const double* b, int b_line,
                            const double* beta, double* c, int c_line) {
  return multiply(handle, a_operation, b_operation, rows, columns, depth, alpha, a, a_line, b, b_line, beta, c, c_line);
}

}  // extern "C"
