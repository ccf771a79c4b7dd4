// SoftProgram: a program in OpenCL C, compiled for the host, and what its kernels say of their parameters.
//
// Immutable once it is built; any thread.
#pragma once

#include <string>
#include <vector>

#include "drivers/opencl/opencl_api.h"

namespace ebb::opencl_test {

struct SoftParameter {
  cl_kernel_arg_address_qualifier space = CL_KERNEL_ARG_ADDRESS_PRIVATE;
  std::string type;       // "float4*"
  std::size_t bytes = 0;  // of a number
};

struct SoftFunction {
  using Run = void (*)(void* const* arguments, const std::size_t* items, const std::size_t* group);

  std::string name;
  std::vector<SoftParameter> parameters;
  Run run = nullptr;
};

struct SoftProgram {
  std::string source, log;
  std::vector<SoftFunction> functions;

  // False with a log if it does not compile.
  bool build(const std::string& options);
  const SoftFunction* find(const std::string& name) const;
};

}  // namespace ebb::opencl_test
