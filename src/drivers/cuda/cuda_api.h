// The part of the CUDA driver's interface that Ebbtide uses, declared here, so that the library builds where there is
// no CUDA toolkit; and its entry points, resolved at run time, so that it loads where there is no driver.
// cuda_api_check.cc compares these declarations with the toolkit's cuda.h where there is one.
//
// Owned by CudaDevice. An Api is immutable after load(); its functions may be called from any thread.
#pragma once

#include <cstddef>
#include <string>

#include "ebb/status.h"

namespace ebb::cuda {

using Result = int;                    // CUresult
using Device = int;                    // CUdevice
using Pointer = unsigned long long;    // CUdeviceptr
using Handle = unsigned long long;     // CUmemGenericAllocationHandle
using Context = struct ContextTag*;    // CUcontext
using Stream = struct StreamTag*;      // CUstream
using Event = struct EventTag*;        // CUevent
using Module = struct ModuleTag*;      // CUmodule
using Function = struct FunctionTag*;  // CUfunction

enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kUncorrectable = 214,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kContextDestroyed = 709,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kDriverMismatch = 803,
};

inline constexpr int kAttributeVirtualMemory = 102;   // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
inline constexpr int kAttributePageableAccess = 88;   // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
inline constexpr int kAttributeHostPageTables = 100;  // …_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
inline constexpr int kAttributeMajor = 75;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kAttributeMinor = 76;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
inline constexpr int kAllocationPinned = 1;           // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kLocationDevice = 1;             // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kLocationHost = 2;               // CU_MEM_LOCATION_TYPE_HOST
inline constexpr Device kHost = -1;                   // CU_DEVICE_CPU
inline constexpr int kAccessReadWrite = 3;            // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kGranularityMinimum = 0;         // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr unsigned kStreamNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventDefault = 0;          // CU_EVENT_DEFAULT
inline constexpr unsigned kEventWithoutTiming = 2;    // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kHostPortable = 1;          // CU_MEMHOSTALLOC_PORTABLE

struct Location {  // CUmemLocation
  int type;
  int id;
};

struct AllocationProperties {  // CUmemAllocationProp
  int type;
  int handle_types;
  Location location;
  void* windows_meta_data;
  struct {
    unsigned char compression;
    unsigned char rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct AccessDescriptor {  // CUmemAccessDesc
  Location location;
  int flags;
};

struct Api {
  Result (*init)(unsigned flags) = nullptr;
  Result (*driver_version)(int* version) = nullptr;
  Result (*error_name)(Result error, const char** text) = nullptr;
  Result (*error_string)(Result error, const char** text) = nullptr;
  Result (*device_count)(int* count) = nullptr;
  Result (*device_get)(Device* device, int ordinal) = nullptr;
  Result (*device_name)(char* name, int bytes, Device device) = nullptr;
  Result (*device_memory)(std::size_t* bytes, Device device) = nullptr;
  Result (*device_attribute)(int* value, int attribute, Device device) = nullptr;
  Result (*context_retain)(Context* context, Device device) = nullptr;
  Result (*context_release)(Device device) = nullptr;
  Result (*context_push)(Context context) = nullptr;
  Result (*context_pop)(Context* context) = nullptr;
  Result (*context_current)(Context* context) = nullptr;
  Result (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  Result (*allocate)(Pointer* pointer, std::size_t bytes) = nullptr;
  Result (*free)(Pointer pointer) = nullptr;
  Result (*host_allocate)(void** data, std::size_t bytes, unsigned flags) = nullptr;
  Result (*host_free)(void* data) = nullptr;
  Result (*stream_create)(Stream* stream, unsigned flags) = nullptr;
  Result (*stream_destroy)(Stream stream) = nullptr;
  Result (*stream_wait)(Stream stream, Event event, unsigned flags) = nullptr;
  Result (*event_create)(Event* event, unsigned flags) = nullptr;
  Result (*event_destroy)(Event event) = nullptr;
  Result (*event_record)(Event event, Stream stream) = nullptr;
  Result (*event_query)(Event event) = nullptr;
  Result (*event_elapsed)(float* milliseconds, Event from, Event to) = nullptr;
  Result (*copy_in)(Pointer to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  Result (*copy_out)(void* to, Pointer from, std::size_t bytes, Stream stream) = nullptr;
  Result (*fill)(Pointer to, unsigned char value, std::size_t bytes, Stream stream) = nullptr;
  // The virtual memory API.
  Result (*granularity)(std::size_t* bytes, const AllocationProperties* properties, int option) = nullptr;
  Result (*reserve)(Pointer* address, std::size_t bytes, std::size_t alignment, Pointer wish,
                    unsigned long long flags) = nullptr;
  Result (*unreserve)(Pointer address, std::size_t bytes) = nullptr;
  Result (*create)(Handle* handle, std::size_t bytes, const AllocationProperties* properties,
                   unsigned long long flags) = nullptr;
  Result (*release)(Handle handle) = nullptr;
  Result (*map)(Pointer address, std::size_t bytes, std::size_t offset, Handle handle,
                unsigned long long flags) = nullptr;
  Result (*unmap)(Pointer address, std::size_t bytes) = nullptr;
  Result (*set_access)(Pointer address, std::size_t bytes, const AccessDescriptor* access, std::size_t count) = nullptr;
  // Kernels.
  Result (*module_load)(Module* module, const void* image) = nullptr;
  Result (*module_unload)(Module module) = nullptr;
  Result (*module_function)(Function* function, Module module, const char* name) = nullptr;
  Result (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                   void** extra) = nullptr;

  // Advice on where pages lie. The first is that of CUDA 12.2 and later; each is null where the driver lacks it.
  Result (*prefetch)(Pointer address, std::size_t bytes, Location location, unsigned flags, Stream stream) = nullptr;
  Result (*prefetch_before_12_2)(Pointer address, std::size_t bytes, Device to, Stream stream) = nullptr;

  // Never closed: threads of the driver outlive whoever uses it. kUnsupported with a sentence in `reason`: no such
  // library, or one that lacks an entry point and so is no CUDA driver, or too old a one.
  static Status load(const std::string& library, Api& api, std::string& reason);
  // Moves pages to a GPU's memory, or to the host's for kHost, by the newest function that there is. kNotSupported:
  // there is none.
  Result move_pages(Pointer address, std::size_t bytes, Device to, Stream stream) const;
  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string text(Result error) const;
};

// Whether no further call can succeed in this process: the context is broken, or the device is gone.
bool is_fatal(Result error);

}  // namespace ebb::cuda
