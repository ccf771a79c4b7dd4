// The part of OpenCL that Ebbtide uses: the one list of its entry points, found at run time in the loader's library, so
// that nothing is linked and programs start where there is no OpenCL. Types and constants are those of Khronos' header.
//
// Owned by who opens a device. Immutable after load(); any thread.
#pragma once

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue: the one that OpenCL 1.2 has
#include <CL/cl.h>

#include <string>

#include "ebb/status.h"

// OpenCL 1.2.
#define EBB_OPENCL_FUNCTIONS(F) \
  F(clGetPlatformIDs)           \
  F(clGetPlatformInfo)          \
  F(clGetDeviceIDs)             \
  F(clGetDeviceInfo)            \
  F(clCreateContext)            \
  F(clReleaseContext)           \
  F(clCreateCommandQueue)       \
  F(clReleaseCommandQueue)      \
  F(clCreateProgramWithSource)  \
  F(clBuildProgram)             \
  F(clGetProgramBuildInfo)      \
  F(clReleaseProgram)           \
  F(clCreateKernel)             \
  F(clSetKernelArg)             \
  F(clGetKernelInfo)            \
  F(clGetKernelArgInfo)         \
  F(clReleaseKernel)            \
  F(clCreateBuffer)             \
  F(clReleaseMemObject)         \
  F(clEnqueueWriteBuffer)       \
  F(clEnqueueReadBuffer)        \
  F(clEnqueueMapBuffer)         \
  F(clEnqueueUnmapMemObject)    \
  F(clEnqueueNDRangeKernel)     \
  F(clFlush)                    \
  F(clSetEventCallback)         \
  F(clGetEventInfo)             \
  F(clReleaseEvent)
// OpenCL 2.0: null in older libraries.
#define EBB_OPENCL_OPTIONAL_FUNCTIONS(F) F(clSetKernelArgSVMPointer)

namespace ebb::opencl {

struct Api {
#define EBB_OPENCL_MEMBER(function) decltype(&::function) function = nullptr;
  EBB_OPENCL_FUNCTIONS(EBB_OPENCL_MEMBER)
  EBB_OPENCL_OPTIONAL_FUNCTIONS(EBB_OPENCL_MEMBER)
#undef EBB_OPENCL_MEMBER

  // Throws Error(kUnsupported) with the remedy: no such library, or one that lacks an entry point. Never closed:
  // threads of the driver outlive whoever uses it.
  static Api load(const std::string& library);
};

// "CL_INVALID_VALUE (-30)".
std::string error_name(cl_int error);
// What an error means for the caller.
Status status_of(cl_int error);
// Throws Error(status_of(error)) saying which call failed, and with what.
[[noreturn]] void fail(cl_int error, const char* call, const std::string& more = "");
inline void require(cl_int error, const char* call) {
  if (error != CL_SUCCESS) fail(error, call);
}

}  // namespace ebb::opencl
