// See nvrtc_api.h.
#include "drivers/cuda/kernels/nvrtc_api.h"

#include "drivers/cuda/symbols.h"

namespace ebb::cuda {

Status Nvrtc::load(const std::string& library, Nvrtc& api, std::string& reason) {
  void* const opened = open_library(library, {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"});
  if (opened == nullptr) {
    reason = "NVRTC, CUDA's compiler at run time, is not to be found (" +
             (library.empty() ? std::string("libnvrtc.so") : library) +
             "): install the CUDA toolkit or the Python package nvidia-cuda-nvrtc, or name the library with "
             "EBB_NVRTC_LIBRARY";
    return Status::kUnsupported;
  }
  // The one list of what is used.
  Symbols symbols(opened);
  symbols.find(api.create, "nvrtcCreateProgram");
  symbols.find(api.destroy, "nvrtcDestroyProgram");
  symbols.find(api.compile, "nvrtcCompileProgram");
  symbols.find(api.log_size, "nvrtcGetProgramLogSize");
  symbols.find(api.log, "nvrtcGetProgramLog");
  symbols.find(api.cubin_size, "nvrtcGetCUBINSize");
  symbols.find(api.cubin, "nvrtcGetCUBIN");
  symbols.find(api.ptx_size, "nvrtcGetPTXSize");
  symbols.find(api.ptx, "nvrtcGetPTX");
  symbols.find(api.architecture_count, "nvrtcGetNumSupportedArchs");
  symbols.find(api.architectures, "nvrtcGetSupportedArchs");
  symbols.find(api.error_text, "nvrtcGetErrorString");
  if (symbols.missing() == nullptr) return Status::kOk;
  reason = "the NVRTC found is none, or older than CUDA 11.2: it lacks " + std::string(symbols.missing()) +
           "; install a newer CUDA toolkit, or name its library with EBB_NVRTC_LIBRARY";
  return Status::kUnsupported;
}

}  // namespace ebb::cuda
