// See layer.h.
#include "layer.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "drivers/opencl/opencl_api.h"

using ebb::opencl_test::Layer;

namespace {

Layer& layer() {
  static auto* const one = new Layer;
  return *one;
}

struct Real {
#define EBB_LAYER_MEMBER(function) decltype(&::function) function = nullptr;
  EBB_OPENCL_FUNCTIONS(EBB_LAYER_MEMBER)
  EBB_OPENCL_OPTIONAL_FUNCTIONS(EBB_LAYER_MEMBER)
#undef EBB_LAYER_MEMBER
};

const Real& real() {
  static const Real found = [] {
    Real api;
    void* const library = ::dlopen(EBB_OPENCL_BENEATH, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::abort();  // the tests look for it first
#define EBB_LAYER_FIND(function) api.function = reinterpret_cast<decltype(api.function)>(::dlsym(library, #function));
    EBB_OPENCL_FUNCTIONS(EBB_LAYER_FIND)
    EBB_OPENCL_OPTIONAL_FUNCTIONS(EBB_LAYER_FIND)
#undef EBB_LAYER_FIND
    return api;
  }();
  return found;
}

// Buffers over host memory that work on copies.
std::mutex copies_mutex;
std::map<cl_mem, void*> copies;

bool fails() {
  const int call = layer().calls.fetch_add(1);
  if (call != layer().fail_at.load()) return false;
  layer().failed = true;
  return true;
}

void count(Layer::Kind kind, int change) { layer().live[kind].fetch_add(change); }

template <typename Object>
Object made(Layer::Kind kind, Object object) {
  if (object != nullptr) count(kind, 1);
  return object;
}

template <typename Object>
Object failed_object(cl_int* error) {
  if (error != nullptr) *error = layer().error;
  return nullptr;
}

cl_int with_event(cl_int error, const cl_event* event) {
  if (error == CL_SUCCESS && event != nullptr && *event != nullptr) count(Layer::kEvent, 1);
  return error;
}

template <typename T>
void replace(void* value, std::size_t bytes, T with) {
  if (value != nullptr && bytes >= sizeof with) std::memcpy(value, &with, sizeof with);
}

template <typename T>
void without(void* value, std::size_t bytes, T bits) {
  T now{};
  if (value == nullptr || bytes < sizeof now) return;
  std::memcpy(&now, value, sizeof now);
  replace(value, bytes, static_cast<T>(now & ~bits));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) Layer* opencl_layer() { return &layer(); }

#define EBB_LAYER __attribute__((visibility("default")))

EBB_LAYER cl_int CL_API_CALL clGetPlatformIDs(cl_uint n, cl_platform_id* ids, cl_uint* count_out) {
  return fails() ? layer().error : real().clGetPlatformIDs(n, ids, count_out);
}
EBB_LAYER cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t bytes, void* value,
                                               size_t* needed) {
  return fails() ? layer().error : real().clGetPlatformInfo(p, what, bytes, value, needed);
}
EBB_LAYER cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id* ids,
                                            cl_uint* count_out) {
  return fails() ? layer().error : real().clGetDeviceIDs(p, type, n, ids, count_out);
}
EBB_LAYER cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void* value,
                                             size_t* needed) {
  if (fails()) return layer().error;
  const cl_int error = real().clGetDeviceInfo(device, what, bytes, value, needed);
  const Layer& set = layer();
  if (what == CL_DEVICE_SVM_CAPABILITIES && set.system_svm) {
    replace<cl_device_svm_capabilities>(value, bytes,
                                        CL_DEVICE_SVM_COARSE_GRAIN_BUFFER | CL_DEVICE_SVM_FINE_GRAIN_SYSTEM);
    return CL_SUCCESS;
  }
  if (error != CL_SUCCESS) return error;
  if (what == CL_DEVICE_SVM_CAPABILITIES) {
    without<cl_device_svm_capabilities>(value, bytes, CL_DEVICE_SVM_FINE_GRAIN_SYSTEM);
  }
  if (what == CL_DEVICE_HOST_UNIFIED_MEMORY && set.no_unified_memory) replace<cl_bool>(value, bytes, CL_FALSE);
  if (what == CL_DEVICE_TYPE && set.as_gpu) replace<cl_device_type>(value, bytes, CL_DEVICE_TYPE_GPU);
  if (what == CL_DEVICE_MEM_BASE_ADDR_ALIGN && set.alignment_bits > 0) {
    replace<cl_uint>(value, bytes, set.alignment_bits);
  }
  if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && set.buffer_bytes_max > 0) {
    replace<cl_ulong>(value, bytes, set.buffer_bytes_max);
  }
  if (what == CL_DEVICE_SINGLE_FP_CONFIG && set.no_correct_division) {
    without<cl_device_fp_config>(value, bytes, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
  }
  if (what == CL_DEVICE_SINGLE_FP_CONFIG && set.no_denormals) {
    without<cl_device_fp_config>(value, bytes, CL_FP_DENORM);
  }
  return error;
}
EBB_LAYER cl_context CL_API_CALL clCreateContext(const cl_context_properties* properties, cl_uint n,
                                                 const cl_device_id* ids,
                                                 void(CL_CALLBACK* tell)(const char*, const void*, size_t, void*),
                                                 void* data, cl_int* error) {
  if (fails()) return failed_object<cl_context>(error);
  return made(Layer::kContext, real().clCreateContext(properties, n, ids, tell, data, error));
}
EBB_LAYER cl_int CL_API_CALL clReleaseContext(cl_context context) {
  count(Layer::kContext, -1);
  return real().clReleaseContext(context);
}
EBB_LAYER cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                            cl_command_queue_properties properties, cl_int* error) {
  if (fails()) return failed_object<cl_command_queue>(error);
  return made(Layer::kQueue, real().clCreateCommandQueue(context, device, properties, error));
}
EBB_LAYER cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue) {
  count(Layer::kQueue, -1);
  return real().clReleaseCommandQueue(queue);
}
EBB_LAYER cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint n, const char** lines,
                                                           const size_t* lengths, cl_int* error) {
  if (fails()) return failed_object<cl_program>(error);
  return made(Layer::kProgram, real().clCreateProgramWithSource(context, n, lines, lengths, error));
}
EBB_LAYER cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint n, const cl_device_id* ids, const char* options,
                                            void(CL_CALLBACK* tell)(cl_program, void*), void* data) {
  if (fails()) return layer().error;
  // A device that does not say so does not take the option.
  if (layer().no_correct_division && std::strstr(options, "correctly-rounded") != nullptr) {
    return CL_INVALID_BUILD_OPTIONS;
  }
  return real().clBuildProgram(program, n, ids, options, tell, data);
}
EBB_LAYER cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                                                   size_t bytes, void* value, size_t* needed) {
  return fails() ? layer().error : real().clGetProgramBuildInfo(program, device, what, bytes, value, needed);
}
EBB_LAYER cl_int CL_API_CALL clReleaseProgram(cl_program program) {
  count(Layer::kProgram, -1);
  return real().clReleaseProgram(program);
}
EBB_LAYER cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char* name, cl_int* error) {
  if (fails()) return failed_object<cl_kernel>(error);
  return made(Layer::kKernel, real().clCreateKernel(program, name, error));
}
EBB_LAYER cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  return fails() ? layer().error : real().clSetKernelArg(kernel, index, bytes, value);
}
EBB_LAYER cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void* pointer) {
  if (fails()) return layer().error;
  layer().pointers.fetch_add(1);
  return real().clSetKernelArgSVMPointer(kernel, index, pointer);
}
EBB_LAYER cl_int CL_API_CALL clGetKernelInfo(cl_kernel kernel, cl_kernel_info what, size_t bytes, void* value,
                                             size_t* needed) {
  return fails() ? layer().error : real().clGetKernelInfo(kernel, what, bytes, value, needed);
}
EBB_LAYER cl_int CL_API_CALL clGetKernelArgInfo(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, size_t bytes,
                                                void* value, size_t* needed) {
  return fails() ? layer().error : real().clGetKernelArgInfo(kernel, index, what, bytes, value, needed);
}
EBB_LAYER cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel) {
  count(Layer::kKernel, -1);
  return real().clReleaseKernel(kernel);
}
EBB_LAYER cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host,
                                            cl_int* error) {
  if (fails()) return failed_object<cl_mem>(error);
  const bool over_host = (flags & CL_MEM_USE_HOST_PTR) != 0;
  (over_host ? layer().host_buffers : layer().device_buffers).fetch_add(1);
  if (over_host && layer().copies_host_memory) {
    flags = (flags & ~static_cast<cl_mem_flags>(CL_MEM_USE_HOST_PTR)) | CL_MEM_COPY_HOST_PTR;
    const cl_mem buffer = real().clCreateBuffer(context, flags, bytes, host, error);
    const std::lock_guard lock(copies_mutex);
    if (buffer != nullptr) copies[buffer] = host;
    return made(Layer::kBuffer, buffer);
  }
  return made(Layer::kBuffer, real().clCreateBuffer(context, flags, bytes, host, error));
}
EBB_LAYER cl_int CL_API_CALL clReleaseMemObject(cl_mem buffer) {
  count(Layer::kBuffer, -1);
  {
    const std::lock_guard lock(copies_mutex);
    copies.erase(buffer);
  }
  return real().clReleaseMemObject(buffer);
}
EBB_LAYER cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t offset,
                                                  size_t bytes, const void* from, cl_uint n, const cl_event* after,
                                                  cl_event* event) {
  if (fails()) return layer().error;
  return with_event(real().clEnqueueWriteBuffer(queue, buffer, wait, offset, bytes, from, n, after, event), event);
}
EBB_LAYER cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t offset,
                                                 size_t bytes, void* to, cl_uint n, const cl_event* after,
                                                 cl_event* event) {
  if (fails()) return layer().error;
  return with_event(real().clEnqueueReadBuffer(queue, buffer, wait, offset, bytes, to, n, after, event), event);
}
EBB_LAYER void* CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, cl_map_flags flags,
                                               size_t offset, size_t bytes, cl_uint n, const cl_event* after,
                                               cl_event* event, cl_int* error) {
  if (fails()) return failed_object<void*>(error);
  void* copied = nullptr;
  {
    const std::lock_guard lock(copies_mutex);
    if (const auto found = copies.find(buffer); found != copies.end()) copied = found->second;
  }
  if (copied != nullptr) {
    *error = with_event(real().clEnqueueReadBuffer(queue, buffer, wait, offset, bytes, copied, n, after, event), event);
    return copied;
  }
  void* const mapped = real().clEnqueueMapBuffer(queue, buffer, wait, flags, offset, bytes, n, after, event, error);
  with_event(*error, event);
  return mapped;
}
EBB_LAYER cl_int CL_API_CALL clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void* mapped, cl_uint n,
                                                     const cl_event* after, cl_event* event) {
  if (fails()) return layer().error;
  bool is_copy = false;
  {
    const std::lock_guard lock(copies_mutex);
    is_copy = copies.contains(buffer);
  }
  // Nothing to unmap: a command that ends when the others have.
  static char nowhere = 0;
  if (is_copy) {
    return with_event(real().clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, 1, &nowhere, n, after, event), event);
  }
  return with_event(real().clEnqueueUnmapMemObject(queue, buffer, mapped, n, after, event), event);
}
EBB_LAYER cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                    const size_t* offset, const size_t* items, const size_t* group,
                                                    cl_uint n, const cl_event* after, cl_event* event) {
  if (fails()) return layer().error;
  return with_event(real().clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, items, group, n, after, event),
                    event);
}
EBB_LAYER cl_int CL_API_CALL clFlush(cl_command_queue queue) { return fails() ? layer().error : real().clFlush(queue); }
EBB_LAYER cl_int CL_API_CALL clSetEventCallback(cl_event event, cl_int state,
                                                void(CL_CALLBACK* tell)(cl_event, cl_int, void*), void* data) {
  if (fails()) return layer().error;
  if (!layer().never_ends) return real().clSetEventCallback(event, state, tell, data);
  // As a device that never ends keeps what it would call back with.
  static std::mutex mutex;
  static auto* const kept = new std::vector<void*>;
  const std::lock_guard lock(mutex);
  kept->push_back(data);
  return CL_SUCCESS;
}
EBB_LAYER cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info what, size_t bytes, void* value,
                                            size_t* needed) {
  if (fails()) return layer().error;
  const cl_int error = real().clGetEventInfo(event, what, bytes, value, needed);
  if (error == CL_SUCCESS && layer().fail_events) replace<cl_int>(value, bytes, CL_OUT_OF_RESOURCES);
  return error;
}
EBB_LAYER cl_int CL_API_CALL clReleaseEvent(cl_event event) {
  count(Layer::kEvent, -1);
  return real().clReleaseEvent(event);
}

}  // extern "C"
