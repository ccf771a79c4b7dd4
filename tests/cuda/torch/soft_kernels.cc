// The kernels of the soft device: PyTorch's CPU kernels on aliases of its tensors; and by hand those that make, view,
// resize and copy tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "soft_aliases.h"
#include "soft_memory.h"
#include "soft_stream.h"

namespace ebb::soft_device {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
  const std::vector<c10::IValue> given(first, stack->end());
  Aliases aliases;
  torch::jit::Stack there;
  for (std::size_t i = 0; i < given.size(); ++i) there.push_back(aliases.argument(given[i], is_written(arguments[i])));
  run_in_stream(toString(op.operator_name()), aliases.touches(), [&] { op.callBoxed(&there); });
  aliases.take_over_shapes();
  stack->erase(first, stack->end());
  for (const c10::IValue& value : there) stack->push_back(aliases.result(value));
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                               std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor make_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                        std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return empty_strided(size, stride, c10::scalarTypeToTypeMeta(c10::dtype_or_default(type)));
}

// Zeros without memory.
at::Tensor efficient_zeros(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                           std::optional<at::Device>, std::optional<bool>) {
  at::native::ZeroTensorAllocator nowhere(kDevice);
  const c10::DispatchKeySet keys{c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor};
  return at::detail::empty_generic(size, &nowhere, keys, c10::dtype_or_default(type), std::nullopt);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  c10::TensorImpl& tensor = *self.unsafeGetTensorImpl();
  tensor.set_sizes_contiguous(size);
  if (format.has_value() && *format != at::MemoryFormat::Preserve) tensor.empty_tensor_restride(*format);
  const std::size_t bytes = static_cast<std::size_t>(tensor.storage_offset() + tensor.numel()) * self.itemsize();
  c10::StorageImpl& storage = *self.storage().unsafeGetStorageImpl();
  if (tensor.numel() > 0 && bytes > storage.nbytes()) resize_storage(storage, bytes);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  Aliases aliases;
  const at::Tensor source = aliases.argument(self, false).toTensor();
  const at::Tensor target = aliases.argument(to, true).toTensor();
  run_in_stream("copy", aliases.touches(), [&] { target.copy_(source); });
  return to;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  Aliases aliases;
  const at::Tensor there = aliases.argument(self, false).toTensor();
  at::Scalar value;
  run_in_stream("_local_scalar_dense", aliases.touches(), [&] { value = at::native::_local_scalar_dense_cpu(there); });
  return value;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  c10::TensorImpl& tensor = *self.unsafeGetTensorImpl();
  tensor.set_storage_keep_dtype(std::move(source));
  tensor.set_storage_offset(offset);
  if (stride.data() == nullptr || stride.size() != size.size()) {
    tensor.set_sizes_contiguous(size);
  } else {
    tensor.set_sizes_and_strides(size, stride);
  }
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<std::int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, elements, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  Aliases aliases;
  const at::Tensor x = aliases.argument(input, false).toTensor();
  const at::Tensor w = aliases.argument(weight, false).toTensor();
  const auto b = bias.has_value() ? std::optional(aliases.argument(*bias, false).toTensor()) : std::nullopt;
  at::Tensor y;
  run_in_stream("convolution", aliases.touches(),
                [&] { y = at::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups); });
  return aliases.result(y).toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient, const at::Tensor& input,
                                                                    const at::Tensor& weight, at::IntArrayRef stride,
                                                                    at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                    bool transposed, at::IntArrayRef output_padding,
                                                                    std::int64_t groups, std::array<bool, 3> wanted) {
  Aliases aliases;
  const at::Tensor dy = aliases.argument(gradient, false).toTensor();
  const at::Tensor x = aliases.argument(input, false).toTensor();
  const at::Tensor w = aliases.argument(weight, false).toTensor();
  const std::vector<std::int64_t> bias{dy.size(1)};
  std::tuple<at::Tensor, at::Tensor, at::Tensor> all;
  run_in_stream("convolution_backward", aliases.touches(), [&] {
    all =
        at::convolution_backward(dy, x, w, bias, stride, padding, dilation, transposed, output_padding, groups, wanted);
  });
  return {aliases.result(std::get<0>(all)).toTensor(), aliases.result(std::get<1>(all)).toTensor(),
          aliases.result(std::get<2>(all)).toTensor()};
}

void record_stream_of(at::Tensor& self, at::Stream stream) {
  record_stream(self.storage().data_ptr(), handle_of(stream));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty_memory_format);
  m.impl("empty_strided", &make_strided);
  m.impl("_efficientzerotensor", &efficient_zeros);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("resize_", &resize);
  m.impl("record_stream", &record_stream_of);
  m.impl("_copy_from", &copy_from);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  // Of these PyTorch has another version for devices that do not say otherwise.
  for (const char* name : {"native_layer_norm", "native_group_norm"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  }
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

// A copy resolves these by itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace ebb::soft_device
