// See opencl_api.h.
#include "drivers/opencl/opencl_api.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace ebb::opencl {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

#define EBB_OPENCL_NAME(error) std::pair<cl_int, const char*>(error, #error)
constexpr std::array kErrors{EBB_OPENCL_NAME(CL_DEVICE_NOT_FOUND),
                             EBB_OPENCL_NAME(CL_DEVICE_NOT_AVAILABLE),
                             EBB_OPENCL_NAME(CL_COMPILER_NOT_AVAILABLE),
                             EBB_OPENCL_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
                             EBB_OPENCL_NAME(CL_OUT_OF_RESOURCES),
                             EBB_OPENCL_NAME(CL_OUT_OF_HOST_MEMORY),
                             EBB_OPENCL_NAME(CL_MEM_COPY_OVERLAP),
                             EBB_OPENCL_NAME(CL_BUILD_PROGRAM_FAILURE),
                             EBB_OPENCL_NAME(CL_MAP_FAILURE),
                             EBB_OPENCL_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
                             EBB_OPENCL_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
                             EBB_OPENCL_NAME(CL_COMPILE_PROGRAM_FAILURE),
                             EBB_OPENCL_NAME(CL_LINKER_NOT_AVAILABLE),
                             EBB_OPENCL_NAME(CL_LINK_PROGRAM_FAILURE),
                             EBB_OPENCL_NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE),
                             EBB_OPENCL_NAME(CL_INVALID_VALUE),
                             EBB_OPENCL_NAME(CL_INVALID_PLATFORM),
                             EBB_OPENCL_NAME(CL_INVALID_DEVICE),
                             EBB_OPENCL_NAME(CL_INVALID_CONTEXT),
                             EBB_OPENCL_NAME(CL_INVALID_QUEUE_PROPERTIES),
                             EBB_OPENCL_NAME(CL_INVALID_COMMAND_QUEUE),
                             EBB_OPENCL_NAME(CL_INVALID_HOST_PTR),
                             EBB_OPENCL_NAME(CL_INVALID_MEM_OBJECT),
                             EBB_OPENCL_NAME(CL_INVALID_BUILD_OPTIONS),
                             EBB_OPENCL_NAME(CL_INVALID_PROGRAM),
                             EBB_OPENCL_NAME(CL_INVALID_PROGRAM_EXECUTABLE),
                             EBB_OPENCL_NAME(CL_INVALID_KERNEL_NAME),
                             EBB_OPENCL_NAME(CL_INVALID_KERNEL_DEFINITION),
                             EBB_OPENCL_NAME(CL_INVALID_KERNEL),
                             EBB_OPENCL_NAME(CL_INVALID_ARG_INDEX),
                             EBB_OPENCL_NAME(CL_INVALID_ARG_VALUE),
                             EBB_OPENCL_NAME(CL_INVALID_ARG_SIZE),
                             EBB_OPENCL_NAME(CL_INVALID_KERNEL_ARGS),
                             EBB_OPENCL_NAME(CL_INVALID_WORK_DIMENSION),
                             EBB_OPENCL_NAME(CL_INVALID_WORK_GROUP_SIZE),
                             EBB_OPENCL_NAME(CL_INVALID_WORK_ITEM_SIZE),
                             EBB_OPENCL_NAME(CL_INVALID_GLOBAL_OFFSET),
                             EBB_OPENCL_NAME(CL_INVALID_EVENT_WAIT_LIST),
                             EBB_OPENCL_NAME(CL_INVALID_EVENT),
                             EBB_OPENCL_NAME(CL_INVALID_OPERATION),
                             EBB_OPENCL_NAME(CL_INVALID_BUFFER_SIZE),
                             EBB_OPENCL_NAME(CL_INVALID_GLOBAL_WORK_SIZE),
                             EBB_OPENCL_NAME(CL_INVALID_COMPILER_OPTIONS),
                             EBB_OPENCL_NAME(CL_INVALID_LINKER_OPTIONS),
                             std::pair<cl_int, const char*>(-1001, "CL_PLATFORM_NOT_FOUND_KHR")};
#undef EBB_OPENCL_NAME

}  // namespace

Api Api::load(const std::string& library) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = ::dlerror();
    throw Error(Status::kUnsupported,
                "there is no OpenCL here (" + std::string(why != nullptr ? why : library.c_str()) +
                    "): install the driver of your GPU, or pocl-opencl-icd (Debian, Ubuntu) for the CPU");
  }
  Api api;
  const char* missing = nullptr;
#define EBB_OPENCL_FIND(function) \
  if (!find(opened, #function, api.function) && missing == nullptr) missing = #function;
  EBB_OPENCL_FUNCTIONS(EBB_OPENCL_FIND)
#undef EBB_OPENCL_FIND
#define EBB_OPENCL_FIND(function) find(opened, #function, api.function);
  EBB_OPENCL_OPTIONAL_FUNCTIONS(EBB_OPENCL_FIND)
#undef EBB_OPENCL_FIND
  if (missing != nullptr) {
    throw Error(Status::kUnsupported, "'" + library + "' is no OpenCL 1.2: it lacks " + missing +
                                          "; install ocl-icd-libopencl1 (Debian, Ubuntu)");
  }
  return api;
}

std::string error_name(cl_int error) {
  for (const auto& [value, name] : kErrors) {
    if (value == error) return std::string(name) + " (" + std::to_string(error) + ")";
  }
  return "OpenCL error " + std::to_string(error);
}

Status status_of(cl_int error) {
  switch (error) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: return Status::kNoMemory;
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE: return Status::kUnsupported;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_KERNEL_NAME:
    case CL_INVALID_ARG_INDEX:
    case CL_INVALID_ARG_VALUE:
    case CL_INVALID_ARG_SIZE:
    case CL_INVALID_KERNEL_ARGS:
    case CL_INVALID_WORK_GROUP_SIZE:
    case CL_INVALID_WORK_ITEM_SIZE:
    case CL_INVALID_GLOBAL_WORK_SIZE: return Status::kInvalid;
    default: return Status::kIoError;
  }
}

void fail(cl_int error, const char* call, const std::string& more) {
  throw Error(status_of(error), std::string("OpenCL: ") + call + " failed: " + error_name(error) + more);
}

}  // namespace ebb::opencl
