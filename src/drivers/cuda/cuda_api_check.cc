// Compares the declarations in cuda_api.h with those of the CUDA toolkit, where there is one; elsewhere this file is
// empty. A mistake there would be found by the compiler here, and by nothing else before a GPU is at hand.
#if __has_include(<cuda.h>)
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/same_function.h"

#if defined(CUDA_VERSION) && CUDA_VERSION >= 12000  // other files are called cuda.h too
namespace ebb::cuda {
namespace {

static_assert(sizeof(Result) == sizeof(CUresult) && sizeof(Device) == sizeof(CUdevice));
static_assert(std::is_same_v<Pointer, CUdeviceptr> && std::is_same_v<Handle, CUmemGenericAllocationHandle>);
static_assert(sizeof(Location) == sizeof(CUmemLocation));
static_assert(sizeof(AccessDescriptor) == sizeof(CUmemAccessDesc));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(offsetof(AccessDescriptor, flags) == offsetof(CUmemAccessDesc, flags));

static_assert(int{kOutOfMemory} == int{CUDA_ERROR_OUT_OF_MEMORY} && int{kNotReady} == int{CUDA_ERROR_NOT_READY});
static_assert(int{kDeinitialized} == int{CUDA_ERROR_DEINITIALIZED} && int{kNoDevice} == int{CUDA_ERROR_NO_DEVICE});
static_assert(int{kStubLibrary} == int{CUDA_ERROR_STUB_LIBRARY} && int{kNotSupported} == int{CUDA_ERROR_NOT_SUPPORTED});
static_assert(int{kIllegalAddress} == int{CUDA_ERROR_ILLEGAL_ADDRESS});
static_assert(int{kLaunchFailed} == int{CUDA_ERROR_LAUNCH_FAILED});
static_assert(int{kUncorrectable} == int{CUDA_ERROR_ECC_UNCORRECTABLE});
static_assert(int{kContextDestroyed} == int{CUDA_ERROR_CONTEXT_IS_DESTROYED});
static_assert(int{kInvalidContext} == int{CUDA_ERROR_INVALID_CONTEXT});
static_assert(int{kDeviceUnavailable} == int{CUDA_ERROR_DEVICE_UNAVAILABLE});
static_assert(int{kSystemNotReady} == int{CUDA_ERROR_SYSTEM_NOT_READY});
static_assert(int{kDriverMismatch} == int{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH});
static_assert(kAttributeVirtualMemory == int{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED});
static_assert(kAttributeHostPageTables == int{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES});
static_assert(kAttributeMajor == int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR});
static_assert(kAttributeMinor == int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR});
static_assert(kAttributePageableAccess == int{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS});
static_assert(kAllocationPinned == int{CU_MEM_ALLOCATION_TYPE_PINNED});
static_assert(kLocationDevice == int{CU_MEM_LOCATION_TYPE_DEVICE});
static_assert(kLocationHost == int{CU_MEM_LOCATION_TYPE_HOST} && kHost == CU_DEVICE_CPU);
static_assert(kAccessReadWrite == int{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
static_assert(kGranularityMinimum == int{CU_MEM_ALLOC_GRANULARITY_MINIMUM});
static_assert(kStreamNonBlocking == unsigned{CU_STREAM_NON_BLOCKING});
static_assert(kEventWithoutTiming == unsigned{CU_EVENT_DISABLE_TIMING} && kHostPortable == CU_MEMHOSTALLOC_PORTABLE);

static_assert(Same<decltype(Api::init), decltype(&cuInit)>::value);
static_assert(Same<decltype(Api::driver_version), decltype(&cuDriverGetVersion)>::value);
static_assert(Same<decltype(Api::error_name), decltype(&cuGetErrorName)>::value);
static_assert(Same<decltype(Api::error_string), decltype(&cuGetErrorString)>::value);
static_assert(Same<decltype(Api::device_count), decltype(&cuDeviceGetCount)>::value);
static_assert(Same<decltype(Api::device_get), decltype(&cuDeviceGet)>::value);
static_assert(Same<decltype(Api::device_name), decltype(&cuDeviceGetName)>::value);
static_assert(Same<decltype(Api::device_memory), decltype(&cuDeviceTotalMem)>::value);
static_assert(Same<decltype(Api::device_attribute), decltype(&cuDeviceGetAttribute)>::value);
static_assert(Same<decltype(Api::context_retain), decltype(&cuDevicePrimaryCtxRetain)>::value);
static_assert(Same<decltype(Api::context_release), decltype(&cuDevicePrimaryCtxRelease)>::value);
static_assert(Same<decltype(Api::context_push), decltype(&cuCtxPushCurrent)>::value);
static_assert(Same<decltype(Api::context_pop), decltype(&cuCtxPopCurrent)>::value);
static_assert(Same<decltype(Api::context_current), decltype(&cuCtxGetCurrent)>::value);
static_assert(Same<decltype(Api::memory_info), decltype(&cuMemGetInfo)>::value);
static_assert(Same<decltype(Api::allocate), decltype(&cuMemAlloc)>::value);
static_assert(Same<decltype(Api::free), decltype(&cuMemFree)>::value);
static_assert(Same<decltype(Api::host_allocate), decltype(&cuMemHostAlloc)>::value);
static_assert(Same<decltype(Api::host_free), decltype(&cuMemFreeHost)>::value);
static_assert(Same<decltype(Api::stream_create), decltype(&cuStreamCreate)>::value);
static_assert(Same<decltype(Api::stream_destroy), decltype(&cuStreamDestroy)>::value);
static_assert(Same<decltype(Api::stream_wait), decltype(&cuStreamWaitEvent)>::value);
static_assert(Same<decltype(Api::event_create), decltype(&cuEventCreate)>::value);
static_assert(Same<decltype(Api::event_destroy), decltype(&cuEventDestroy)>::value);
static_assert(Same<decltype(Api::event_record), decltype(&cuEventRecord)>::value);
static_assert(Same<decltype(Api::event_query), decltype(&cuEventQuery)>::value);
static_assert(Same<decltype(Api::event_elapsed), decltype(&cuEventElapsedTime)>::value);
static_assert(Same<decltype(Api::copy_in), decltype(&cuMemcpyHtoDAsync)>::value);
static_assert(Same<decltype(Api::copy_out), decltype(&cuMemcpyDtoHAsync)>::value);
static_assert(Same<decltype(Api::fill), decltype(&cuMemsetD8Async)>::value);
static_assert(Same<decltype(Api::granularity), decltype(&cuMemGetAllocationGranularity)>::value);
static_assert(Same<decltype(Api::reserve), decltype(&cuMemAddressReserve)>::value);
static_assert(Same<decltype(Api::unreserve), decltype(&cuMemAddressFree)>::value);
static_assert(Same<decltype(Api::create), decltype(&cuMemCreate)>::value);
static_assert(Same<decltype(Api::release), decltype(&cuMemRelease)>::value);
static_assert(Same<decltype(Api::map), decltype(&cuMemMap)>::value);
static_assert(Same<decltype(Api::unmap), decltype(&cuMemUnmap)>::value);
static_assert(Same<decltype(Api::set_access), decltype(&cuMemSetAccess)>::value);
static_assert(Same<decltype(Api::module_load), decltype(&cuModuleLoadData)>::value);
static_assert(Same<decltype(Api::module_unload), decltype(&cuModuleUnload)>::value);
static_assert(Same<decltype(Api::module_function), decltype(&cuModuleGetFunction)>::value);
static_assert(Same<decltype(Api::launch), decltype(&cuLaunchKernel)>::value);
// The newer function has the name of the older from CUDA 13 on; what is exported has both, as find() asks for them.
#if CUDA_VERSION >= 13000
static_assert(Same<decltype(Api::prefetch), decltype(&cuMemPrefetchAsync)>::value);
#else
static_assert(Same<decltype(Api::prefetch_before_12_2), decltype(&cuMemPrefetchAsync)>::value);
#endif

}  // namespace
}  // namespace ebb::cuda
#endif  // CUDA_VERSION
#endif  // cuda.h
