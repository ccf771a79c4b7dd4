// See device_observer.h.
#include "bindings/torch_device/device_observer.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "bindings/torch/accesses.h"
#include "bindings/torch_device/allocations.h"
#include "bindings/torch_device/collectives.h"
#include "bindings/torch_device/operator_kinds.h"
#include "bindings/torch_device/refused_storage.h"

namespace ebb::torch_adapter {
namespace {

at::CallbackHandle g_handle = at::INVALID_CALLBACK_HANDLE;

// Operators and launches that are open in this thread, and what has been shown as tensors' since the first of them.
struct ThreadState {
  std::size_t depth = 0;
  std::vector<const void*> seen;
};
thread_local ThreadState t_state;

void* data_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

// Calls `each` for the plain tensors that a tensor consists of: itself, or the parts of a sparse one.
template <typename Each>
void for_each_part(const at::Tensor& tensor, Each each) {
  if (!tensor.defined()) return;
  switch (tensor.layout()) {
    case c10::kSparse: {
      const auto* const sparse = static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
      each(sparse->indices());
      each(sparse->values());
      break;
    }
    case c10::kSparseCsr:
    case c10::kSparseCsc:
    case c10::kSparseBsr:
    case c10::kSparseBsc: {
      const auto* const sparse = static_cast<const at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
      each(sparse->compressed_indices());
      each(sparse->plain_indices());
      each(sparse->values());
      break;
    }
    default: each(tensor);
  }
}

// A forked child, which has tensors of the CPU alone, does not come to the lock.
void show(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != managed_device()->device().type()) return;
  for_each_part(tensor, [](const at::Tensor& part) {
    if (const void* const data = data_of(part); data != nullptr && see(data)) t_state.seen.push_back(data);
  });
}

void show_all(Arguments values) {
  if (!any_unseen()) return;
  for_each_tensor(values, [](const at::Tensor& tensor, std::uint32_t, std::size_t) { show(tensor); });
}

void enter() { ++t_state.depth; }

// Afterwards who uses what has been shown announces it.
void leave() {
  if (--t_state.depth > 0 || t_state.seen.empty()) return;
  const ManagedDevice& device = *managed_device();
  device.runtime().unpin_on(device.current_stream(), t_state.seen);
  t_state.seen.clear();
}

Accesses accesses_of(Arguments arguments, std::uint64_t written) {
  const ManagedDevice& device = *managed_device();
  Accesses accesses;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::uint32_t group, std::size_t argument) {
    for_each_part(tensor, [&](const at::Tensor& part) {
      add_tensor(device.runtime(), device.device().type(), part, group, is_written(written, argument), accesses);
    });
  });
  return accesses;
}

// An operator that is running. While it has been refused, its tensors' storages throw the reason.
struct RunningOperator final : at::ObserverContext {
  std::uint64_t ticket = 0;
  bool collective = false;
  std::vector<c10::Storage> refused;
};

void refuse(RunningOperator& running, Arguments arguments, const std::string& reason) {
  const ManagedDevice& device = *managed_device();
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::uint32_t, std::size_t) {
    for_each_part(tensor, [&](const at::Tensor& part) {
      const void* const data = data_of(part);
      if (data == nullptr || !device.runtime().manages(data)) return;
      running.refused.push_back(part.storage());
      refuse_address(*running.refused.back().unsafeGetStorageImpl(), reason);
    });
  });
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  const ManagedDevice& device = *managed_device();
  const OperatorKind kind = kind_of(function, device.device().type());
  if (kind == OperatorKind::kMadeOfOthers) return nullptr;
  auto running = std::make_unique<RunningOperator>();
  enter();
  const auto arguments = function.inputs();
  try {
    show_all(arguments);
    if (kind == OperatorKind::kLooksAtNothing) return running;
    const std::uint64_t op = op_of(function.name());
    const std::uint64_t written = written_arguments(device.runtime(), function, op);
    const Accesses accesses = accesses_of(arguments, written);
    if (accesses.empty()) return running;
    running->collective = kind == OperatorKind::kCollective;
    if (kind == OperatorKind::kRefused) throw Error(Status::kUnsupported, refusal_of(function.name()));
    running->ticket = device.runtime().announce_on(device.current_stream(), op, {accesses.data(), accesses.size()});
  } catch (const std::exception& error) {
    // No room, or tensors that do not tell their bytes, as nested ones: their kernels would end the CUDA context.
    refuse(*running, arguments, error.what());
  }
  return running;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto& running = *static_cast<RunningOperator*>(context);
  for (const c10::Storage& storage : running.refused) {
    give_address_again(*storage.unsafeGetStorageImpl());
  }
  show_all(Arguments(function.outputs().data(), function.outputs().size()));
  if (running.collective) wait_for_collective(function.outputs());
  if (running.ticket != 0) managed_device()->runtime().retire(running.ticket);
  leave();
}

}  // namespace

void install_device_observer() {
  if (g_handle != at::INVALID_CALLBACK_HANDLE) return;
  g_handle = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
}

std::uint64_t begin_launch(const std::vector<at::Tensor>& tensors, const std::string& name) {
  if (managed_device() == nullptr) throw Error(Status::kInvalid, "no device's memory is managed in this process");
  const ManagedDevice& device = *managed_device();
  const c10::IValue arguments{tensors};
  const Accesses accesses = accesses_of(Arguments(&arguments, 1), 0);
  const std::uint64_t ticket =
      device.runtime().announce_on(device.current_stream(), op_of(name), {accesses.data(), accesses.size()});
  enter();
  show_all(Arguments(&arguments, 1));
  return ticket;
}

void end_launch(std::uint64_t ticket) {
  managed_device()->runtime().retire(ticket);
  leave();
}

}  // namespace ebb::torch_adapter
