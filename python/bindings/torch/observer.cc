// See observer.h.
#include "bindings/torch/observer.h"

#include <ATen/record_function.h>

#include <memory>

#include "bindings/torch/accesses.h"
#include "bindings/torch/rows.h"
#include "bindings/torch/waiting.h"

namespace ebb::torch_adapter {
namespace {

Runtime* g_observing = nullptr;
at::CallbackHandle g_handle = at::INVALID_CALLBACK_HANDLE;

struct LaunchContext final : at::ObserverContext {
  LaunchContext(std::uint64_t ticket_in, bool of_rows_in) : ticket(ticket_in), of_rows(of_rows_in) {}
  std::uint64_t ticket;
  bool of_rows;
};

// Within an operator that uses a few rows of a table: those that it is made of have nothing to add.
thread_local bool t_within_rows = false;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  const std::uint64_t op = op_of(function.name());
  if (t_within_rows || !looks_at_content(op)) return nullptr;
  Accesses accesses;
  bool of_rows = false;
  try {
    const std::uint64_t written = written_arguments(*g_observing, function, op);
    const Arguments arguments = function.inputs();
    const auto add = [&](const at::Tensor& tensor, std::uint32_t group, std::size_t argument) {
      add_tensor(*g_observing, c10::DeviceType::CPU, tensor, group, is_written(written, argument), accesses);
    };
    of_rows = add_rows(*g_observing, op, arguments, written, accesses);
    if (!of_rows) for_each_tensor(arguments, add);
  } catch (...) {
    return nullptr;  // an exotic tensor: let it fault
  }
  if (accesses.empty()) return nullptr;
  std::uint64_t ticket = 0;
  {
    const AnnouncedWait wait;
    ticket = g_observing->announce(op, {accesses.data(), accesses.size()});
  }
  if (ticket == 0) return nullptr;
  t_within_rows = of_rows;
  return std::make_unique<LaunchContext>(ticket, of_rows);
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* const launch = static_cast<LaunchContext*>(context);
  if (launch->of_rows) t_within_rows = false;
  g_observing->retire(launch->ticket);
}

}  // namespace

void install_observer(Runtime& runtime) {
  g_observing = &runtime;
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
