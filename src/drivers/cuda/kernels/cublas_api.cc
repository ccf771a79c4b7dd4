// See cublas_api.h.
#include "drivers/cuda/kernels/cublas_api.h"

#include "drivers/cuda/symbols.h"

namespace ebb::cuda {

Status Cublas::load(const std::string& library, Cublas& api) {
  void* const opened = open_library(library, {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"});
  if (opened == nullptr) return Status::kUnsupported;
  // The one list of what is used.
  Symbols symbols(opened);
  symbols.find(api.create, "cublasCreate_v2");
  symbols.find(api.destroy, "cublasDestroy_v2");
  symbols.find(api.set_stream, "cublasSetStream_v2");
  symbols.find(api.multiply_f32, "cublasSgemm_v2");
  symbols.find(api.multiply_f64, "cublasDgemm_v2");
  return symbols.missing() == nullptr ? Status::kOk : Status::kUnsupported;
}

}  // namespace ebb::cuda
