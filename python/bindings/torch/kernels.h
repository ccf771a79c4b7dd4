// Kernels that PyTorch's compiler makes for the CPU (torch.compile, inductor's C++ backend): functions of its own, of
// which no operator tells. Announced by who calls them: ebbtide/torch/compiled.py.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "ebb/runtime.h"

namespace ebb::torch_adapter {

// The operator that a kernel of this name is.
std::uint64_t kernel_op(Runtime& runtime, const std::string& name);

// A kernel is going to run on those of its arguments that are tensors; `written`: a bit for each argument that it may
// write to, of the first 63. Waits until they are here, without Python's lock. A ticket for Runtime::retire(); 0: there
// is nothing to retire.
std::uint64_t begin_kernel(Runtime& runtime, std::uint64_t op, const pybind11::tuple& arguments, std::uint64_t written);

}  // namespace ebb::torch_adapter
