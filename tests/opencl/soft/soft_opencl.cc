// libopencl_soft.so: an OpenCL 1.2 with one device, the CPU, for builds in which a compiler inside the process is more
// than the sanitizers can follow. Kernels are compiled by this machine's C++ compiler (soft_program.h), commands run on
// a thread of their queue (soft_queue.h). It has the entry points that Ebbtide uses, and checks what OpenCL says they
// check, as far as Ebbtide relies on it.
//
// Handles are pointers to shared pointers: what is enqueued holds on to what it works on. Any thread.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "soft_program.h"
#include "soft_queue.h"

struct _cl_platform_id {};
struct _cl_device_id {};
struct _cl_context {};
struct _cl_command_queue {
  ebb::opencl_test::SoftQueue queue;
};
struct _cl_program {
  std::shared_ptr<ebb::opencl_test::SoftProgram> program;
};
struct _cl_event {
  std::shared_ptr<ebb::opencl_test::SoftEvent> event;
};

namespace {

using ebb::opencl_test::SoftEvent;
using ebb::opencl_test::SoftFunction;
using ebb::opencl_test::SoftParameter;
using ebb::opencl_test::SoftProgram;

struct Memory {
  std::unique_ptr<std::byte[]> own;  // none: it is the host's
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

struct Argument {
  std::array<std::byte, 16> number{};
  std::shared_ptr<Memory> memory;
  void* pointer = nullptr;
  bool set = false;
};

_cl_platform_id g_platform;
_cl_device_id g_device;
constexpr cl_ulong kMemoryBytes = cl_ulong{1} << 30;

template <typename T>
T* failed(cl_int* error, cl_int what) {
  if (error != nullptr) *error = what;
  return nullptr;
}

template <typename T>
T* made(cl_int* error, T* object) {
  if (error != nullptr) *error = CL_SUCCESS;
  return object;
}

cl_int tell(const void* from, std::size_t size, std::size_t bytes, void* value, std::size_t* needed) {
  if (needed != nullptr) *needed = size;
  if (value == nullptr) return CL_SUCCESS;
  if (bytes < size) return CL_INVALID_VALUE;
  std::memcpy(value, from, size);
  return CL_SUCCESS;
}

template <typename T>
cl_int tell_value(T what, std::size_t bytes, void* value, std::size_t* needed) {
  return tell(&what, sizeof what, bytes, value, needed);
}

cl_int tell_text(const std::string& text, std::size_t bytes, void* value, std::size_t* needed) {
  return tell(text.c_str(), text.size() + 1, bytes, value, needed);
}

}  // namespace

struct _cl_mem {
  std::shared_ptr<Memory> memory;
};
struct _cl_kernel {
  std::shared_ptr<SoftProgram> program;
  const SoftFunction* function;
  std::vector<Argument> arguments;
};

namespace {

cl_int enqueue(cl_command_queue queue, std::function<void()> command, cl_event* event) {
  std::shared_ptr<SoftEvent> made = queue->queue.enqueue(std::move(command));
  if (event != nullptr) *event = new _cl_event{std::move(made)};
  return CL_SUCCESS;
}

bool fits(const _cl_mem& buffer, std::size_t offset, std::size_t bytes) {
  return bytes > 0 && offset <= buffer.memory->bytes && bytes <= buffer.memory->bytes - offset;
}

}  // namespace

extern "C" {

#define EBB_SOFT __attribute__((visibility("default")))

EBB_SOFT cl_int CL_API_CALL clGetPlatformIDs(cl_uint n, cl_platform_id* ids, cl_uint* count) {
  if (ids != nullptr && n > 0) ids[0] = &g_platform;
  if (count != nullptr) *count = 1;
  return CL_SUCCESS;
}

EBB_SOFT cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id, cl_platform_info, size_t bytes, void* value,
                                              size_t* needed) {
  return tell_text("Ebbtide's software OpenCL", bytes, value, needed);
}

EBB_SOFT cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint n, cl_device_id* ids,
                                           cl_uint* count) {
  if (ids != nullptr && n > 0) ids[0] = &g_device;
  if (count != nullptr) *count = 1;
  return CL_SUCCESS;
}

EBB_SOFT cl_int CL_API_CALL clGetDeviceInfo(cl_device_id, cl_device_info what, size_t bytes, void* value,
                                            size_t* needed) {
  constexpr cl_device_fp_config kExact = CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST;
  switch (what) {
    case CL_DEVICE_NAME: return tell_text("software device", bytes, value, needed);
    case CL_DEVICE_VERSION: return tell_text("OpenCL 1.2 software", bytes, value, needed);
    case CL_DEVICE_TYPE: return tell_value<cl_device_type>(CL_DEVICE_TYPE_CPU, bytes, value, needed);
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_HOST_UNIFIED_MEMORY: return tell_value<cl_bool>(CL_TRUE, bytes, value, needed);
    case CL_DEVICE_SVM_CAPABILITIES:
      return tell_value<cl_device_svm_capabilities>(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, bytes, value, needed);
    case CL_DEVICE_DOUBLE_FP_CONFIG: return tell_value(kExact, bytes, value, needed);
    case CL_DEVICE_SINGLE_FP_CONFIG:
      return tell_value(kExact | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, bytes, value, needed);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return tell_value(kMemoryBytes, bytes, value, needed);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: return tell_value<cl_uint>(1024, bytes, value, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return tell_value<cl_uint>(1, bytes, value, needed);
    default: return CL_INVALID_VALUE;
  }
}

EBB_SOFT cl_context CL_API_CALL clCreateContext(const cl_context_properties*, cl_uint, const cl_device_id*,
                                                void(CL_CALLBACK*)(const char*, const void*, size_t, void*), void*,
                                                cl_int* error) {
  return made(error, new _cl_context);
}
EBB_SOFT cl_int CL_API_CALL clReleaseContext(cl_context context) {
  delete context;
  return CL_SUCCESS;
}

EBB_SOFT cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties,
                                                           cl_int* error) {
  return made(error, new _cl_command_queue);
}
EBB_SOFT cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue) {
  delete queue;
  return CL_SUCCESS;
}
EBB_SOFT cl_int CL_API_CALL clFlush(cl_command_queue) { return CL_SUCCESS; }

EBB_SOFT cl_program CL_API_CALL clCreateProgramWithSource(cl_context, cl_uint n, const char** lines,
                                                          const size_t* lengths, cl_int* error) {
  auto program = std::make_shared<SoftProgram>();
  for (cl_uint i = 0; i < n; ++i) program->source.append(lines[i], lengths[i]);
  return made(error, new _cl_program{std::move(program)});
}
EBB_SOFT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint, const cl_device_id*, const char* options,
                                           void(CL_CALLBACK*)(cl_program, void*), void*) {
  return program->program->build(options) ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}
EBB_SOFT cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id, cl_program_build_info, size_t bytes,
                                                  void* value, size_t* needed) {
  return tell_text(program->program->log, bytes, value, needed);
}
EBB_SOFT cl_int CL_API_CALL clReleaseProgram(cl_program program) {
  delete program;
  return CL_SUCCESS;
}

EBB_SOFT cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char* name, cl_int* error) {
  const SoftFunction* const function = program->program->find(name);
  if (function == nullptr) return failed<_cl_kernel>(error, CL_INVALID_KERNEL_NAME);
  return made(error, new _cl_kernel{program->program, function, std::vector<Argument>(function->parameters.size())});
}
EBB_SOFT cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel) {
  delete kernel;
  return CL_SUCCESS;
}
EBB_SOFT cl_int CL_API_CALL clGetKernelInfo(cl_kernel kernel, cl_kernel_info what, size_t bytes, void* value,
                                            size_t* needed) {
  if (what != CL_KERNEL_NUM_ARGS) return CL_INVALID_VALUE;
  return tell_value(static_cast<cl_uint>(kernel->arguments.size()), bytes, value, needed);
}
EBB_SOFT cl_int CL_API_CALL clGetKernelArgInfo(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, size_t bytes,
                                               void* value, size_t* needed) {
  if (index >= kernel->arguments.size()) return CL_INVALID_ARG_INDEX;
  const SoftParameter& parameter = kernel->function->parameters[index];
  if (what == CL_KERNEL_ARG_ADDRESS_QUALIFIER) return tell_value(parameter.space, bytes, value, needed);
  if (what == CL_KERNEL_ARG_TYPE_NAME) return tell_text(parameter.type, bytes, value, needed);
  return CL_INVALID_VALUE;
}

EBB_SOFT cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  if (index >= kernel->arguments.size()) return CL_INVALID_ARG_INDEX;
  const SoftParameter& parameter = kernel->function->parameters[index];
  if (parameter.space == CL_KERNEL_ARG_ADDRESS_LOCAL) return CL_INVALID_ARG_VALUE;  // nobody passes such
  Argument argument;
  argument.set = true;
  if (parameter.space == CL_KERNEL_ARG_ADDRESS_PRIVATE) {
    if (bytes != parameter.bytes || bytes > argument.number.size()) return CL_INVALID_ARG_SIZE;
    if (value == nullptr) return CL_INVALID_ARG_VALUE;
    std::memcpy(argument.number.data(), value, bytes);
  } else {
    if (bytes != sizeof(cl_mem)) return CL_INVALID_ARG_SIZE;
    if (value != nullptr) argument.memory = (*static_cast<const cl_mem*>(value))->memory;
    if (argument.memory != nullptr) argument.pointer = argument.memory->data;
  }
  kernel->arguments[index] = std::move(argument);
  return CL_SUCCESS;
}

EBB_SOFT cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void* pointer) {
  if (index >= kernel->arguments.size()) return CL_INVALID_ARG_INDEX;
  Argument argument;
  argument.set = true;
  argument.pointer = const_cast<void*>(pointer);
  kernel->arguments[index] = std::move(argument);
  return CL_SUCCESS;
}

EBB_SOFT cl_mem CL_API_CALL clCreateBuffer(cl_context, cl_mem_flags flags, size_t bytes, void* host, cl_int* error) {
  if (bytes == 0 || bytes > kMemoryBytes) return failed<_cl_mem>(error, CL_INVALID_BUFFER_SIZE);
  auto memory = std::make_shared<Memory>();
  memory->bytes = bytes;
  if ((flags & CL_MEM_USE_HOST_PTR) != 0) {
    memory->data = static_cast<std::byte*>(host);
  } else {
    memory->own = std::make_unique<std::byte[]>(bytes);
    memory->data = memory->own.get();
    if ((flags & CL_MEM_COPY_HOST_PTR) != 0) std::memcpy(memory->data, host, bytes);
  }
  return made(error, new _cl_mem{std::move(memory)});
}
EBB_SOFT cl_int CL_API_CALL clReleaseMemObject(cl_mem buffer) {
  delete buffer;
  return CL_SUCCESS;
}

EBB_SOFT cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool, size_t offset,
                                                 size_t bytes, const void* from, cl_uint, const cl_event*,
                                                 cl_event* event) {
  if (!fits(*buffer, offset, bytes)) return CL_INVALID_VALUE;
  return enqueue(
      queue, [memory = buffer->memory, offset, bytes, from] { std::memcpy(memory->data + offset, from, bytes); },
      event);
}
EBB_SOFT cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool, size_t offset,
                                                size_t bytes, void* to, cl_uint, const cl_event*, cl_event* event) {
  if (!fits(*buffer, offset, bytes)) return CL_INVALID_VALUE;
  return enqueue(
      queue, [memory = buffer->memory, offset, bytes, to] { std::memcpy(to, memory->data + offset, bytes); }, event);
}
EBB_SOFT void* CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool, cl_map_flags,
                                              size_t offset, size_t bytes, cl_uint, const cl_event*, cl_event* event,
                                              cl_int* error) {
  if (!fits(*buffer, offset, bytes)) return failed<void>(error, CL_INVALID_VALUE);
  enqueue(
      queue, [memory = buffer->memory] {}, event);
  return made<void>(error, buffer->memory->data + offset);
}
EBB_SOFT cl_int CL_API_CALL clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void*, cl_uint,
                                                    const cl_event*, cl_event* event) {
  return enqueue(
      queue, [memory = buffer->memory] {}, event);
}

EBB_SOFT cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                   const size_t*, const size_t* items, const size_t* group, cl_uint,
                                                   const cl_event*, cl_event* event) {
  if (dimensions < 1 || dimensions > 3) return CL_INVALID_WORK_DIMENSION;
  std::array<std::size_t, 3> all{1, 1, 1}, of_group{1, 1, 1};
  for (cl_uint d = 0; d < dimensions; ++d) {
    all[d] = items[d];
    of_group[d] = group != nullptr ? group[d] : 1;
    if (of_group[d] == 0 || all[d] % of_group[d] != 0) return CL_INVALID_WORK_GROUP_SIZE;
  }
  for (const Argument& argument : kernel->arguments) {
    if (!argument.set) return CL_INVALID_KERNEL_ARGS;
  }
  return enqueue(
      queue,
      [program = kernel->program, function = kernel->function, arguments = kernel->arguments, all, of_group]() mutable {
        std::vector<void*> values;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
          const bool is_number = function->parameters[i].space == CL_KERNEL_ARG_ADDRESS_PRIVATE;
          values.push_back(is_number ? static_cast<void*>(arguments[i].number.data())
                                     : static_cast<void*>(&arguments[i].pointer));
        }
        function->run(values.data(), all.data(), of_group.data());
      },
      event);
}

EBB_SOFT cl_int CL_API_CALL clSetEventCallback(cl_event event, cl_int,
                                               void(CL_CALLBACK* tell_end)(cl_event, cl_int, void*), void* data) {
  event->event->when_ended([tell_end, data] { tell_end(nullptr, CL_COMPLETE, data); });
  return CL_SUCCESS;
}
EBB_SOFT cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info what, size_t bytes, void* value,
                                           size_t* needed) {
  if (what != CL_EVENT_COMMAND_EXECUTION_STATUS) return CL_INVALID_VALUE;
  return tell_value<cl_int>(event->event->ended() ? CL_COMPLETE : CL_RUNNING, bytes, value, needed);
}
EBB_SOFT cl_int CL_API_CALL clReleaseEvent(cl_event event) {
  delete event;
  return CL_SUCCESS;
}

}  // extern "C"
