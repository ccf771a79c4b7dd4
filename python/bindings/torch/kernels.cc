// See kernels.h.
#include "bindings/torch/kernels.h"

#include <torch/csrc/autograd/python_variable.h>

#include "bindings/torch/accesses.h"

namespace ebb::torch_adapter {

std::uint64_t kernel_op(Runtime& runtime, const std::string& name) {
  const std::uint64_t op = op_of(name);
  runtime.name_op(op, name.c_str());
  return op;
}

std::uint64_t begin_kernel(Runtime& runtime, std::uint64_t op, const pybind11::tuple& arguments,
                           std::uint64_t written) {
  Accesses accesses;
  try {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const pybind11::handle argument = arguments[i];
      if (!THPVariable_Check(argument.ptr())) continue;
      const at::Tensor& tensor = THPVariable_Unpack(argument.ptr());
      add_tensor(runtime, c10::DeviceType::CPU, tensor, 0, is_written(written, i), accesses);
    }
  } catch (...) {
    return 0;  // an exotic tensor: let it fault
  }
  if (accesses.empty()) return 0;
  const pybind11::gil_scoped_release release;
  return runtime.announce(op, {accesses.data(), accesses.size()});
}

}  // namespace ebb::torch_adapter
