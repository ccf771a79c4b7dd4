// What each operator is in C, for the code generator: the same arithmetic as the kernels of the CPU, written once for
// OpenCL C and CUDA C. Pure text.
#pragma once

#include <string>

#include "array/kernels/kernel.h"

namespace ebb::array {

// How a compute type is called in generated source.
const char* source_name(Compute type);
// The definition of `op` on operands of `type`, named as by function_name(). Throws Error(kInternal) if there is none.
std::string function_source(Op op, Compute type);
std::string function_name(Op op, Compute type);
// Of a cast; `narrow` as for find_cast().
std::string cast_source(Compute from, Compute to, bool narrow);
std::string cast_name(Compute from, Compute to, bool narrow);

// Types, qualifiers, and how f16 and bf16 are read and rounded.
const char* opencl_prelude();
const char* cuda_prelude();
const char* common_prelude();

}  // namespace ebb::array
