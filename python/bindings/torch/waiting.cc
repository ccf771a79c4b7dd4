// See waiting.h.
#include "bindings/torch/waiting.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace ebb::torch_adapter {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

constexpr std::size_t kWorst = 5;

// Both under the GIL, and leaked on purpose: tensors wait until the very end of a process.
PyObject* g_ask = nullptr;
std::unordered_map<const void*, std::string>* g_parameters = nullptr;  // names by tensor

thread_local bool t_asked = false;
thread_local AnnouncedWait* t_announced = nullptr;

const std::string* parameter_of(const Node& node) {
  const auto* const leaf = dynamic_cast<const AccumulateGrad*>(&node);
  if (leaf == nullptr) return nullptr;
  const auto found = g_parameters->find(leaf->variable.unsafeGetTensorImpl());
  return found != g_parameters->end() ? &found->second : nullptr;
}

bool is_view(const std::string& name) { return name == "TBackward0" || name == "TransposeBackward0"; }

// A node that has a parameter among its inputs belongs to the module that owns it, as do views of the parameter.
const std::string* parameter_used_by(const Node& node) {
  if (g_parameters == nullptr) return nullptr;
  if (const std::string* name = parameter_of(node)) return name;
  for (const auto& edge : node.next_edges()) {
    if (edge.function == nullptr) continue;
    if (const std::string* name = parameter_of(*edge.function)) return name;
    if (!is_view(edge.function->name()) || edge.function->num_outputs() == 0) continue;
    const auto& below = edge.function->next_edge(0).function;
    if (below == nullptr) continue;
    if (const std::string* name = parameter_of(*below)) return name;
  }
  return nullptr;
}

// GeluBackward0 is the backward of Gelu.
std::string backward_of(const std::string& node) {
  const std::size_t at = node.find("Backward");
  return "backward of " + node.substr(0, at == 0 ? std::string::npos : at);
}

void tell_of_node(const Node& node, WaitContext& context) {
  const std::string kind = node.name();
  const bool accumulates = kind.find("AccumulateGrad") != std::string::npos;
  context.otherwise = accumulates ? TensorKind::kGradient : TensorKind::kActivation;
  const std::string* const parameter = parameter_used_by(node);
  if (parameter == nullptr) {
    context.module = backward_of(kind);
    return;
  }
  const std::size_t dot = parameter->rfind('.');
  context.module = dot == std::string::npos ? "(model)" : parameter->substr(0, dot);
}

// For the program's main thread, at the next operation of its interpreter.
int raise_kept(void* error) {
  const std::unique_ptr<py::error_already_set> kept(static_cast<py::error_already_set*>(error));
  kept->restore();
  return -1;
}

// While Python is asked it runs the handlers of signals that have come. What one has raised, such as KeyboardInterrupt,
// is for the program, not for whoever has asked.
void hand_on(const py::error_already_set& error) {
  auto kept = std::make_unique<py::error_already_set>(error);
  if (Py_AddPendingCall(&raise_kept, kept.get()) == 0) static_cast<void>(kept.release());
}

// Noexcept: what cannot be found out is not told.
void ask(std::uint64_t /*op*/, WaitContext& context) noexcept {
  if (t_announced != nullptr) t_announced->begin();
  if (t_asked || g_ask == nullptr || PyGILState_GetThisThreadState() == nullptr) return;
  t_asked = true;
  try {
    const auto node = torch::autograd::get_current_node();
    const py::gil_scoped_acquire gil;
    const py::error_scope kept;  // an operator may run while an exception is on its way
    if (g_ask != nullptr) {
      try {
        const py::object module = py::reinterpret_borrow<py::object>(g_ask)();
        if (!module.is_none()) {
          context.module = module.cast<std::string>();
          context.otherwise = TensorKind::kActivation;
        } else if (node != nullptr) {
          tell_of_node(*node, context);
        }
      } catch (const py::error_already_set& error) {
        hand_on(error);
      }
    }
  } catch (...) {
  }
  t_asked = false;
}

const void* storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.is_cpu()) return nullptr;
  if (!tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  return storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

void add_note(const Runtime& runtime, const at::Tensor& tensor, TensorKind kind, std::string name,
              std::vector<MemoryNote>& notes) {
  const void* const data = storage_of(tensor);
  if (data != nullptr && runtime.manages(data)) notes.push_back({data, kind, std::move(name)});
}

py::dict entry_dict(const WaitEntry& entry) {
  py::dict causes;
  for (std::size_t i = 0; i < kWaitCauses; ++i) causes[kWaitCauseNames[i]] = entry.stall_ns[i];
  py::dict d;
  d["name"] = py::str(py::bytes(entry.name).attr("decode")("utf-8", "replace"));
  d["stall_ns"] = entry.total_ns();
  d["waits"] = entry.waits;
  d["fetched_bytes"] = entry.fetched_bytes;
  d["ahead_bytes"] = entry.ahead_bytes;
  d["causes_ns"] = causes;
  return d;
}

py::list worst_of(const std::vector<WaitEntry>& entries) {
  py::list worst;
  for (std::size_t i = 0; i < std::min(entries.size(), kWorst); ++i) worst.append(entry_dict(entries[i]));
  return worst;
}

}  // namespace

void observe_waits(Runtime& runtime) { runtime.observe_waits(&ask); }

AnnouncedWait::AnnouncedWait() noexcept : outer_(std::exchange(t_announced, this)) {}

AnnouncedWait::~AnnouncedWait() { t_announced = outer_; }

// Active only where a profiler records what users mark. Noexcept: what it cannot record is not recorded.
void AnnouncedWait::begin() noexcept {
  try {
    range_.emplace(at::RecordScope::USER_SCOPE);
    range_->before("ebbtide::wait");
  } catch (...) {
  }
}

void set_wait_asker(const py::object& asker) {
  PyObject* const before = g_ask;
  g_ask = asker.is_none() ? nullptr : py::object(asker).release().ptr();
  Py_XDECREF(before);
}

void describe_tensors(Runtime& runtime, const py::list& parameters, const py::list& states) {
  std::vector<MemoryNote> notes;
  auto* const names = new std::unordered_map<const void*, std::string>();
  for (const py::handle item : parameters) {
    const auto pair = item.cast<py::tuple>();
    const py::handle object = pair[0];
    if (!THPVariable_Check(object.ptr())) continue;
    const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
    const auto name = pair[1].cast<std::string>();
    (*names)[tensor.unsafeGetTensorImpl()] = name;
    add_note(runtime, tensor, TensorKind::kParameter, name, notes);
    if (tensor.is_leaf()) add_note(runtime, tensor.grad(), TensorKind::kGradient, name + ".grad", notes);
  }
  for (const py::handle item : states) {
    const auto pair = item.cast<py::tuple>();
    const py::handle object = pair[0];
    if (!THPVariable_Check(object.ptr())) continue;
    add_note(runtime, THPVariable_Unpack(object.ptr()), TensorKind::kOptimizer, pair[1].cast<std::string>(), notes);
  }
  delete std::exchange(g_parameters, names);
  const py::gil_scoped_release release;
  runtime.describe(notes);
}

py::dict waits_of(const Runtime& runtime) {
  const WaitReport report = runtime.waits();
  py::dict causes;
  for (std::size_t i = 0; i < kWaitCauses; ++i) causes[kWaitCauseNames[i]] = report.cause_ns[i];
  py::dict kinds;
  for (std::size_t i = 0; i < kTensorKinds; ++i) kinds[kTensorKindNames[i]] = report.kind_ns[i];
  py::dict d;
  d["stall_ns"] = report.total_ns;
  d["causes_ns"] = causes;
  d["kinds_ns"] = kinds;
  d["operators"] = worst_of(report.operators);
  d["modules"] = worst_of(report.modules);
  return d;
}

}  // namespace ebb::torch_adapter
