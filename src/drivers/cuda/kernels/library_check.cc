// Compares the declarations in nvrtc_api.h and cublas_api.h with those of the CUDA toolkit, where there is one;
// elsewhere this file is empty. PyTorch brings these headers, but not all that they include.
#if __has_include(<cublas_v2.h>) && __has_include(<nvrtc.h>) && __has_include(<crt/host_defines.h>)
#include <cublas_v2.h>
#include <nvrtc.h>

#include "drivers/cuda/kernels/cublas_api.h"
#include "drivers/cuda/kernels/nvrtc_api.h"
#include "drivers/cuda/same_function.h"

namespace ebb::cuda {
namespace {

static_assert(int{Cublas::kPlain} == int{CUBLAS_OP_N} && int{Cublas::kTransposed} == int{CUBLAS_OP_T});
static_assert(Same<decltype(Cublas::create), decltype(&cublasCreate)>::value);
static_assert(Same<decltype(Cublas::destroy), decltype(&cublasDestroy)>::value);
static_assert(Same<decltype(Cublas::set_stream), decltype(&cublasSetStream)>::value);
static_assert(Same<decltype(Cublas::multiply_f32), decltype(&cublasSgemm)>::value);
static_assert(Same<decltype(Cublas::multiply_f64), decltype(&cublasDgemm)>::value);
static_assert(Same<decltype(Nvrtc::create), decltype(&nvrtcCreateProgram)>::value);
static_assert(Same<decltype(Nvrtc::destroy), decltype(&nvrtcDestroyProgram)>::value);
static_assert(Same<decltype(Nvrtc::compile), decltype(&nvrtcCompileProgram)>::value);
static_assert(Same<decltype(Nvrtc::log_size), decltype(&nvrtcGetProgramLogSize)>::value);
static_assert(Same<decltype(Nvrtc::log), decltype(&nvrtcGetProgramLog)>::value);
static_assert(Same<decltype(Nvrtc::cubin_size), decltype(&nvrtcGetCUBINSize)>::value);
static_assert(Same<decltype(Nvrtc::cubin), decltype(&nvrtcGetCUBIN)>::value);
static_assert(Same<decltype(Nvrtc::ptx_size), decltype(&nvrtcGetPTXSize)>::value);
static_assert(Same<decltype(Nvrtc::ptx), decltype(&nvrtcGetPTX)>::value);
static_assert(Same<decltype(Nvrtc::architecture_count), decltype(&nvrtcGetNumSupportedArchs)>::value);
static_assert(Same<decltype(Nvrtc::architectures), decltype(&nvrtcGetSupportedArchs)>::value);

}  // namespace
}  // namespace ebb::cuda
#endif
