// See cuda_api.h.
#include "drivers/cuda/cuda_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "drivers/cuda/symbols.h"

namespace ebb::cuda {
namespace {

// The one list of what is used.
void find_all(Symbols& symbols, Api& api) {
  symbols.find(api.init, "cuInit");
  symbols.find(api.driver_version, "cuDriverGetVersion");
  symbols.find(api.error_name, "cuGetErrorName");
  symbols.find(api.error_string, "cuGetErrorString");
  symbols.find(api.device_count, "cuDeviceGetCount");
  symbols.find(api.device_get, "cuDeviceGet");
  symbols.find(api.device_name, "cuDeviceGetName");
  symbols.find(api.device_memory, "cuDeviceTotalMem_v2");
  symbols.find(api.device_attribute, "cuDeviceGetAttribute");
  symbols.find(api.context_retain, "cuDevicePrimaryCtxRetain");
  symbols.find(api.context_release, "cuDevicePrimaryCtxRelease_v2");
  symbols.find(api.context_push, "cuCtxPushCurrent_v2");
  symbols.find(api.context_pop, "cuCtxPopCurrent_v2");
  symbols.find(api.context_current, "cuCtxGetCurrent");
  symbols.find(api.memory_info, "cuMemGetInfo_v2");
  symbols.find(api.allocate, "cuMemAlloc_v2");
  symbols.find(api.free, "cuMemFree_v2");
  symbols.find(api.host_allocate, "cuMemHostAlloc");
  symbols.find(api.host_free, "cuMemFreeHost");
  symbols.find(api.stream_create, "cuStreamCreate");
  symbols.find(api.stream_destroy, "cuStreamDestroy_v2");
  symbols.find(api.stream_wait, "cuStreamWaitEvent");
  symbols.find(api.event_create, "cuEventCreate");
  symbols.find(api.event_destroy, "cuEventDestroy_v2");
  symbols.find(api.event_record, "cuEventRecord");
  symbols.find(api.event_query, "cuEventQuery");
  symbols.find(api.event_elapsed, "cuEventElapsedTime");
  symbols.find(api.copy_in, "cuMemcpyHtoDAsync_v2");
  symbols.find(api.copy_out, "cuMemcpyDtoHAsync_v2");
  symbols.find(api.fill, "cuMemsetD8Async");
  symbols.find(api.module_load, "cuModuleLoadData");
  symbols.find(api.module_unload, "cuModuleUnload");
  symbols.find(api.module_function, "cuModuleGetFunction");
  symbols.find(api.launch, "cuLaunchKernel");
  symbols.find(api.granularity, "cuMemGetAllocationGranularity");
  symbols.find(api.reserve, "cuMemAddressReserve");
  symbols.find(api.unreserve, "cuMemAddressFree");
  symbols.find(api.create, "cuMemCreate");
  symbols.find(api.release, "cuMemRelease");
  symbols.find(api.map, "cuMemMap");
  symbols.find(api.unmap, "cuMemUnmap");
  symbols.find(api.set_access, "cuMemSetAccess");
}

}  // namespace

Status Api::load(const std::string& library, Api& api, std::string& reason) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = ::dlerror();
    reason = "there is no CUDA driver here (" + std::string(why != nullptr ? why : library.c_str()) +
             "): install the NVIDIA driver, give the container access to the GPU, or run without --device-memory";
    return Status::kUnsupported;
  }
  Symbols symbols(opened);
  find_all(symbols, api);
  if (symbols.missing() != nullptr) {
    reason = "'" + library + "' is no CUDA driver, or one older than CUDA 11.2: it lacks " + symbols.missing() +
             "; install the NVIDIA driver";
    return Status::kUnsupported;
  }
  Symbols advice(opened);
  advice.find(api.prefetch, "cuMemPrefetchAsync_v2");
  advice.find(api.prefetch_before_12_2, "cuMemPrefetchAsync");
  return Status::kOk;
}

Result Api::move_pages(Pointer address, std::size_t bytes, Device to, Stream stream) const {
  if (prefetch != nullptr) {
    const Location location = to == kHost ? Location{kLocationHost, 0} : Location{kLocationDevice, to};
    return prefetch(address, bytes, location, 0, stream);
  }
  return prefetch_before_12_2 != nullptr ? prefetch_before_12_2(address, bytes, to, stream) : kNotSupported;
}

std::string Api::text(Result error) const {
  const char* symbol = nullptr;
  const char* sentence = nullptr;
  if (error_name == nullptr || error_name(error, &symbol) != kSuccess || symbol == nullptr) {
    return "CUDA error " + std::to_string(error);
  }
  const bool explained = error_string != nullptr && error_string(error, &sentence) == kSuccess && sentence != nullptr;
  return explained ? std::string(symbol) + " (" + sentence + ")" : std::string(symbol);
}

bool is_fatal(Result error) {
  // Errors of the hardware or of a kernel, after which CUDA answers every call with the same one; and the end of CUDA
  // itself, which comes before that of the process.
  static constexpr std::array<Result, 20> kFatal{kDeinitialized,
                                                 kDeviceUnavailable,
                                                 kInvalidContext,
                                                 kUncorrectable,
                                                 220,
                                                 226,
                                                 kIllegalAddress,
                                                 702,
                                                 kContextDestroyed,
                                                 710,
                                                 714,
                                                 715,
                                                 716,
                                                 717,
                                                 718,
                                                 kLaunchFailed,
                                                 721,
                                                 kSystemNotReady,
                                                 810,
                                                 911};
  return std::find(kFatal.begin(), kFatal.end(), error) != kFatal.end();
}

}  // namespace ebb::cuda
