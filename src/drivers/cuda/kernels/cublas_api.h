// The part of cuBLAS that Ebbtide uses, and its entry points, resolved at run time.
//
// Owned by a KernelStream. Immutable after load(); a handle is used by one thread at a time.
#pragma once

#include <string>

#include "drivers/cuda/cuda_api.h"

namespace ebb::cuda {

struct Cublas {
  using Handle = struct CublasTag*;  // cublasHandle_t
  enum Operation : int { kPlain = 0, kTransposed = 1 };

  int (*create)(Handle* handle) = nullptr;
  int (*destroy)(Handle handle) = nullptr;
  int (*set_stream)(Handle handle, Stream stream) = nullptr;
  int (*multiply_f32)(Handle handle, int a_operation, int b_operation, int rows, int columns, int depth,
                      const float* alpha, const float* a, int a_line, const float* b, int b_line, const float* beta,
                      float* c, int c_line) = nullptr;
  int (*multiply_f64)(Handle handle, int a_operation, int b_operation, int rows, int columns, int depth,
                      const double* alpha, const double* a, int a_line, const double* b, int b_line, const double* beta,
                      double* c, int c_line) = nullptr;

  // `library` empty: the newest that the loader finds. kUnsupported: none, or one that lacks an entry point.
  static Status load(const std::string& library, Cublas& api);
};

}  // namespace ebb::cuda
