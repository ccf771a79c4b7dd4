// See observer.h.
#include "observer.h"

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <functional>
#include <string_view>

namespace ebb::torch_adapter {
namespace {

Runtime* g_runtime = nullptr;
at::CallbackHandle g_handle = at::INVALID_CALLBACK_HANDLE;

// Enough for most operators without allocating; lists of tensors (foreach, fused, cat) spill to the heap.
using Accesses = c10::SmallVector<Access, 16>;

struct LaunchContext final : at::ObserverContext {
  explicit LaunchContext(std::uint64_t ticket_in) : ticket(ticket_in) {}
  std::uint64_t ticket;
};

void add_tensor(const at::Tensor& tensor, std::uint32_t group, Accesses& accesses) {
  // Opaque (oneDNN), sparse, meta and functional tensors have no plain storage; what they hold faults.
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.unsafeGetTensorImpl()->has_storage()) return;
  if (!tensor.device().is_cpu() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const void* const base = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  if (base == nullptr || !g_runtime->manages(base)) return;
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
  accesses.push_back({first, static_cast<std::size_t>(elements) * item, base, group});
}

void add_list(const c10::IValue& value, std::size_t at, Accesses& accesses) {
  const auto list = value.toListRef();
  if (at >= list.size() || !list[at].isTensor()) return;
  add_tensor(list[at].toTensor(), static_cast<std::uint32_t>(at), accesses);
}

// Lists of one operator are gone through side by side, as fused optimizers do: first the parameter, gradient and state
// of one tensor, then those of the next.
void collect(c10::ArrayRef<const c10::IValue> inputs, Accesses& accesses) {
  std::size_t longest = 0;
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) {
      add_tensor(input.toTensor(), 0, accesses);
    } else if (input.isTensorList() || input.isOptionalTensorList()) {
      longest = std::max(longest, input.toListRef().size());
    }
  }
  for (std::size_t i = 0; i < longest; ++i) {
    for (const c10::IValue& input : inputs) {
      if (input.isTensorList() || input.isOptionalTensorList()) add_list(input, i, accesses);
    }
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  Accesses accesses;
  try {
    collect(function.inputs(), accesses);
  } catch (...) {
    return nullptr;  // an exotic tensor: let it fault
  }
  if (accesses.empty()) return nullptr;
  const std::uint64_t op = std::hash<std::string_view>{}(function.name());
  const std::uint64_t ticket = g_runtime->announce(op, {accesses.data(), accesses.size()});
  return ticket == 0 ? nullptr : std::make_unique<LaunchContext>(ticket);
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) g_runtime->retire(static_cast<LaunchContext*>(context)->ticket);
}

}  // namespace

void install_observer(Runtime& runtime) {
  g_runtime = &runtime;
  if (g_handle != at::INVALID_CALLBACK_HANDLE) return;
  g_handle = at::addGlobalCallback(
      at::RecordFunctionCallback(on_start, on_end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

void remove_observer() {
  if (g_handle == at::INVALID_CALLBACK_HANDLE) return;
  at::removeCallback(g_handle);
  g_handle = at::INVALID_CALLBACK_HANDLE;
}

}  // namespace ebb::torch_adapter
