// See accesses.h.
#include "bindings/torch/accesses.h"

#include <ATen/core/List.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <array>
#include <string>

#include "bindings/torch/operator_table.h"

namespace ebb::torch_adapter {
namespace {

bool is_list(const c10::IValue& value) { return value.isTensorList() || value.isOptionalTensorList(); }

// As collectives have them.
bool is_list_of_lists(const c10::IValue& value) {
  return value.isList() && !is_list(value) && !value.toListRef().empty() && is_list(value.toListRef()[0]);
}

constinit OperatorTable g_written;
constinit OperatorTable g_looks_at_content;

constexpr std::array kLookAtNoContent{"_reshape_alias",
                                      "_unsafe_view",
                                      "alias",
                                      "as_strided",
                                      "as_strided_",
                                      "chunk",
                                      "contiguous",
                                      "detach",
                                      "detach_",
                                      "diagonal",
                                      "empty_like",
                                      "expand",
                                      "expand_as",
                                      "flatten",
                                      "full_like",
                                      "lift_fresh",
                                      "movedim",
                                      "narrow",
                                      "new_empty",
                                      "new_empty_strided",
                                      "new_full",
                                      "new_ones",
                                      "new_zeros",
                                      "ones_like",
                                      "permute",
                                      "rand_like",
                                      "randn_like",
                                      "requires_grad_",
                                      "reshape",
                                      "reshape_as",
                                      "resize_",
                                      "resolve_conj",
                                      "resolve_neg",
                                      "select",
                                      "slice",
                                      "split",
                                      "split_with_sizes",
                                      "squeeze",
                                      "squeeze_",
                                      "swapaxes",
                                      "t",
                                      "t_",
                                      "tensor_split",
                                      "to",
                                      "transpose",
                                      "transpose_",
                                      "unbind",
                                      "unflatten",
                                      "unfold",
                                      "unsqueeze",
                                      "unsqueeze_",
                                      "view",
                                      "view_as",
                                      "zeros_like"};

std::uint64_t written_by_schema(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema.has_value()) return 0;
  const auto& arguments = schema->arguments();
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), OperatorTable::kValueBits); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias != nullptr && alias->isWrite()) written |= std::uint64_t{1} << i;
  }
  return written;
}

}  // namespace

void add_tensor(const Runtime& runtime, c10::DeviceType type, const at::Tensor& tensor, std::uint32_t group,
                bool written, Accesses& accesses) {
  // Opaque (oneDNN), sparse, meta and functional tensors have no plain storage.
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.unsafeGetTensorImpl()->has_storage()) return;
  if (tensor.device().type() != type || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const void* const base = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  if (base == nullptr || !runtime.manages(base)) return;
  std::int64_t elements = 1;  // of the span from the first element to the last
  const auto sizes = tensor.unsafeGetTensorImpl()->sizes();
  const auto strides = tensor.unsafeGetTensorImpl()->strides();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return;
    elements += (sizes[d] - 1) * strides[d];
  }
  const std::size_t item = tensor.dtype().itemsize();
  const auto* const first =
      static_cast<const char*>(base) + static_cast<std::size_t>(tensor.unsafeGetTensorImpl()->storage_offset()) * item;
  accesses.push_back({first, static_cast<std::size_t>(elements) * item, base, group, written});
}

// Lists of one operator are gone through side by side, as fused optimizers do: first the parameter, gradient and state
// of one tensor, then those of the next.
void for_each_tensor(Arguments arguments, EachTensor each) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor()) {
      each(arguments[i].toTensor(), 0, i);
    } else if (is_list(arguments[i])) {
      longest = std::max(longest, arguments[i].toListRef().size());
    } else if (is_list_of_lists(arguments[i])) {
      for (const c10::IValue& list : arguments[i].toListRef()) {
        for (const c10::IValue& value : list.toListRef()) each(value.toTensor(), 0, i);
      }
    }
  }
  for (std::size_t at = 0; at < longest; ++at) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!is_list(arguments[i])) continue;
      const auto list = arguments[i].toListRef();
      if (at < list.size() && list[at].isTensor()) each(list[at].toTensor(), static_cast<std::uint32_t>(at), i);
    }
  }
}

std::uint64_t written_arguments(Runtime& runtime, const at::RecordFunction& function, std::uint64_t op) {
  return g_written.get(op, [&] {
    runtime.name_op(op, function.name());
    return written_by_schema(function);
  });
}

bool looks_at_content(std::uint64_t op) {
  return g_looks_at_content.get(op, [op] {
    return std::none_of(kLookAtNoContent.begin(), kLookAtNoContent.end(), [op](const char* name) {
      // Autograd's own part of one, as of detach(), has the name alone.
      return op_of(std::string("aten::") + name) == op || op_of(name) == op;
    });
  }) != 0;
}

}  // namespace ebb::torch_adapter
