// See observer.h.
#include "observer.h"

#include <ATen/core/List.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

void add_tensor(const at::Tensor& tensor, std::uint32_t group, bool written, Accesses& accesses) {
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
  accesses.push_back({first, static_cast<std::size_t>(elements) * item, base, group, written});
}

void add_list(const c10::IValue& value, std::size_t at, bool written, Accesses& accesses) {
  const auto list = value.toListRef();
  if (at >= list.size() || !list[at].isTensor()) return;
  add_tensor(list[at].toTensor(), static_cast<std::uint32_t>(at), written, accesses);
}

// Which arguments of an operator its schema says are written (a bit each): for recordings, and for plans that write out
// what is not going to change. Asked once for each operator, because a schema is slow to come by.
std::uint64_t written_arguments(const at::RecordFunction& function, std::uint64_t op) {
  static std::mutex mutex;
  static std::unordered_map<std::uint64_t, std::uint64_t> known;
  const std::lock_guard lock(mutex);
  const auto [found, added] = known.emplace(op, 0);
  if (!added) return found->second;
  if (g_runtime->recording()) g_runtime->name_op(op, function.name());
  if (const auto schema = function.operator_schema(); schema.has_value()) {
    const auto& arguments = schema->arguments();
    for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), 64); ++i) {
      const auto* alias = arguments[i].alias_info();
      if (alias != nullptr && alias->isWrite()) found->second |= std::uint64_t{1} << i;
    }
  }
  return found->second;
}

// Lists of one operator are gone through side by side, as fused optimizers do: first the parameter, gradient and state
// of one tensor, then those of the next.
void collect(c10::ArrayRef<const c10::IValue> inputs, std::uint64_t written, Accesses& accesses) {
  std::size_t longest = 0;
  const auto is_written = [written](std::size_t i) { return i < 64 && ((written >> i) & 1) != 0; };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const c10::IValue& input = inputs[i];
    if (input.isTensor()) {
      add_tensor(input.toTensor(), 0, is_written(i), accesses);
    } else if (input.isTensorList() || input.isOptionalTensorList()) {
      longest = std::max(longest, input.toListRef().size());
    }
  }
  for (std::size_t at = 0; at < longest; ++at) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const c10::IValue& input = inputs[i];
      if (input.isTensorList() || input.isOptionalTensorList()) add_list(input, at, is_written(i), accesses);
    }
  }
}

// Operators that look at no content: views, what only takes the shape of its argument, and what is made of others,
// which are announced themselves where they copy. To announce them would fetch what nobody reads.
bool looks_at_content(std::uint64_t op) {
  static const std::vector<std::uint64_t> others = [] {
    std::istringstream names(
        "_reshape_alias _unsafe_view alias as_strided as_strided_ chunk contiguous detach detach_ diagonal empty_like "
        "expand expand_as flatten full_like lift_fresh movedim narrow new_empty new_empty_strided new_full new_ones "
        "new_zeros ones_like permute rand_like randn_like requires_grad_ reshape reshape_as resize_ resolve_conj "
        "resolve_neg select slice split split_with_sizes squeeze squeeze_ swapaxes t t_ tensor_split to transpose "
        "transpose_ unbind unflatten unfold unsqueeze unsqueeze_ view view_as zeros_like");
    std::vector<std::uint64_t> hashes;
    for (std::string name; names >> name;) hashes.push_back(op_of("aten::" + name));
    std::sort(hashes.begin(), hashes.end());
    return hashes;
  }();
  return !std::binary_search(others.begin(), others.end(), op);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  const std::uint64_t op = op_of(function.name());
  if (!looks_at_content(op)) return nullptr;
  Accesses accesses;
  try {
    collect(function.inputs(), written_arguments(function, op), accesses);
  } catch (...) {
    return nullptr;  // an exotic tensor: let it fault
  }
  if (accesses.empty()) return nullptr;
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
