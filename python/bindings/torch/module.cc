// The Python module ebbtide._C: the runtime of this process, and the functions that ebbtide/torch offers.
//
// The runtime is never closed: its threads serve touches until the process ends, also those of static destructors.
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "bindings/adoption.h"
#include "bindings/torch/allocator.h"
#include "bindings/torch/kernels.h"
#include "bindings/torch/observer.h"
#include "bindings/torch/waiting.h"
#include "bindings/torch_device/allocations.h"
#include "bindings/torch_device/device_observer.h"
#include "ebb/device.h"
#include "ebb/runtime.h"

namespace py = pybind11;

namespace ebb::torch_adapter {
namespace {

std::shared_ptr<Runtime>* g_runtime = nullptr;  // leaked on purpose
bool g_enabled = false;

Runtime& runtime() {
  if (g_runtime == nullptr) throw Error(Status::kInvalid, "Ebbtide has not been enabled in this process");
  return **g_runtime;
}

// That of a process which mapped large files before it asked for one (src/host), or null.
std::shared_ptr<Runtime>* host_runtime() {
  using Host = std::shared_ptr<Runtime>* (*)();
  const auto host = reinterpret_cast<Host>(::dlsym(RTLD_DEFAULT, "ebb_host_runtime"));
  return host == nullptr ? nullptr : host();
}

// Tensors of the CPU; or with Options::device_memory, those of the device of this type that Options::device says.
void enable(const Options& options, const std::string& device_type) {
  if (g_runtime == nullptr) g_runtime = host_runtime();
  if (g_runtime == nullptr) g_runtime = new std::shared_ptr<Runtime>(Runtime::open(options));
  if (auto* const device = dynamic_cast<DeviceRuntime*>(g_runtime->get()); device != nullptr) {
    set_managed_device(*device, c10::Device(device_type + ":" + std::to_string(options.device)));
    install_device_observer();
  } else {
    install_allocator(runtime());
    install_observer(runtime());
    observe_waits(runtime());
  }
  g_enabled = true;
}

// In a forked child whose parent had nothing yet: it is a process of the job like any other.
void join_after_fork() {
  if (g_runtime == nullptr || !g_enabled || !runtime().forked_empty()) return;
  Options options = options_from_environment();
  options.job_rank = -1;
  options.record.clear();
  options.guide.clear();
  g_runtime = new std::shared_ptr<Runtime>(Runtime::open(options));
  install_allocator(runtime());
  install_observer(runtime());
  observe_waits(runtime());
}

void disable() {
  if (!g_enabled) return;
  if (managed_device() != nullptr) {
    throw Error(Status::kUnsupported, "tensors on a GPU stay managed until the process ends");
  }
  remove_allocator();
  remove_observer();
  g_enabled = false;
}

py::dict stats() {
  const Stats s = runtime().stats();
  py::dict d;
  for (const auto& [name, counter] : kStatsFields) d[name] = s.*counter;
  d["policy"] = runtime().policy();
  d["description"] = runtime().description();
  d["step_seconds"] = runtime().step_seconds();
  d["waits"] = waits_of(runtime());
  return d;
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  static const py::handle error = py::module_::import("ebbtide").attr("Error").cast<py::object>().release();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& failed) {
      PyErr_SetString(error.ptr(), failed.what());
    }
  });
  py::class_<Options>(m, "Options")
      .def(py::init<>())
      .def_static("from_environment", &options_from_environment)
      .def_readwrite("map_files", &Options::map_files)
      .def("set_flash", [](Options& options, const std::string& text) { parse_flash(text, options); })
      .def_readwrite("memory", &Options::memory)
      .def_readwrite("memory_max", &Options::memory_max)
      .def_readwrite("policy", &Options::policy)
      .def_readwrite("block_bytes", &Options::block_bytes)
      .def_readwrite("device_memory", &Options::device_memory)
      .def_readwrite("device", &Options::device)
      .def_readwrite("encrypt", &Options::encrypt)
      .def_readwrite("nvrtc_library", &Options::nvrtc_library)
      .def_readwrite("managed_bytes_min", &Options::managed_bytes_min);
  m.def("parse_size", [](const std::string& text) { return parse_size(text); });
  m.def("enable", &enable, py::arg("options"), py::arg("device_type") = "cuda",
        py::call_guard<py::gil_scoped_release>());
  m.def("manages_device", [] { return managed_device() != nullptr; });
  m.def("record_stream_address", [] { return reinterpret_cast<std::uintptr_t>(&ebb_device_record_stream); });
  m.def("begin_launch", &begin_launch, py::call_guard<py::gil_scoped_release>());
  m.def("end_launch", &end_launch, py::call_guard<py::gil_scoped_release>());
  m.def("kernel_op", [](const std::string& name) { return kernel_op(runtime(), name); });
  m.def("begin_kernel", [](std::uint64_t op, const py::tuple& arguments, std::uint64_t written) {
    return g_enabled ? begin_kernel(runtime(), op, arguments, written) : 0;
  });
  m.def("end_kernel", [](std::uint64_t ticket) { runtime().retire(ticket); });
  m.def("join_after_fork", &join_after_fork);
  m.def("disable", &disable);
  m.def("enabled", [] { return g_enabled; });
  m.def("opened", [] { return g_runtime != nullptr; });
  m.def("step", [] { runtime().step(); });
  m.def(
      "set_memory", [](std::uint64_t bytes) { runtime().set_budget(bytes); }, py::call_guard<py::gil_scoped_release>());
  m.def("stats", &stats);
  m.def("threads_prepared", [] { return runtime().threads_prepared(); });
  m.def("set_wait_asker", &set_wait_asker);
  m.def("describe",
        [](const py::list& parameters, const py::list& states) { describe_tensors(runtime(), parameters, states); });
  python::bind_adoption(m, runtime);
  m.def("manages", [](const at::Tensor& tensor) {
    return g_runtime != nullptr && tensor.has_storage() && runtime().manages(tensor.storage().data());
  });
}

}  // namespace ebb::torch_adapter
