// The Python module ebbtide._array: arrays without torch. Thin: ebbtide/array/ gives it the interface of the Python
// array API standard.
//
// Everything that may evaluate releases the GIL: an evaluation may end the life of memory whose owner needs it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <span>
#include <string>

#include "bindings/adoption.h"
#include "bindings/array/dlpack.h"
#include "ebb/array.h"
#include "ebb/opencl/device.h"
#include "ebb/options.h"

namespace py = pybind11;

namespace ebb::array_python {
namespace {

using Release = py::call_guard<py::gil_scoped_release>;

DType dtype_named(const std::string& name) {
  for (int t = 0; t < kDTypes; ++t) {
    if (name == ebb::name(static_cast<DType>(t))) return static_cast<DType>(t);
  }
  throw Error(Status::kInvalid, "there is no element type " + name);
}

Op op_named(const std::string& name) {
  // Leaked on purpose: threads may ask while the process ends.
  static const auto& ops = *[] {
    auto* const made = new std::map<std::string, Op>;
    for (int i = 0; i < kOps; ++i) (*made)[ebb::name(static_cast<Op>(i))] = static_cast<Op>(i);
    return made;
  }();
  const auto found = ops.find(name);
  if (found == ops.end()) throw Error(Status::kInvalid, "there is no operator " + name);
  return found->second;
}

Reduce reduce_named(const std::string& name) {
  static const auto& kinds = *new std::map<std::string, Reduce>{
      {"sum", Reduce::kSum}, {"prod", Reduce::kProd}, {"min", Reduce::kMin},       {"max", Reduce::kMax},
      {"any", Reduce::kAny}, {"all", Reduce::kAll},   {"argmin", Reduce::kArgMin}, {"argmax", Reduce::kArgMax}};
  return kinds.at(name);
}

std::shared_ptr<Runtime>* g_runtime = nullptr;

void open_runtime(const std::string& memory, const std::string& flash, const std::string& policy) {
  Options options = options_from_environment();
  if (!memory.empty()) options.memory = parse_size(memory);
  if (!flash.empty()) parse_flash(flash, options);
  if (!policy.empty()) options.policy = policy;
  // Leaked on purpose, as the adapter's is: arrays may be touched until the very end of the process.
  g_runtime = new std::shared_ptr<Runtime>(Runtime::open(options));
  use_runtime(*g_runtime);
}

Runtime& runtime() {
  if (g_runtime == nullptr)
    throw Error(Status::kInvalid, "there is no runtime: call ebbtide.array.open_runtime() first");
  return **g_runtime;
}

py::dict cache_dict(const CacheStats& stats) {
  py::dict d;
  d["hits"] = stats.hits;
  d["misses"] = stats.misses;
  d["evictions"] = stats.evictions;
  d["entries"] = stats.entries;
  d["capacity"] = stats.capacity;
  return d;
}

py::dict stats() {
  const ArrayStats now = array_stats();
  py::dict d;
  d["shapes"] = cache_dict(now.shapes);
  d["programs"] = cache_dict(now.programs);
  d["tads"] = cache_dict(now.tads);
  d["passes"] = now.passes;
  d["operators"] = now.operators;
  d["forced"] = now.forced;
  d["on_device"] = now.on_device;
  return d;
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& error) {
    PyObject* type = error.status() == Status::kInvalid    ? PyExc_ValueError
                     : error.status() == Status::kNoMemory ? PyExc_MemoryError
                     : error.status() == Status::kIoError  ? PyExc_OSError
                                                           : PyExc_RuntimeError;
    py::set_error(type, error.what());
  }
}

void bind_array(py::module_& m) {
  py::class_<Array>(m, "Array")
      .def_property_readonly("dtype", [](const Array& a) { return name(a.dtype()); })
      .def_property_readonly("shape", [](const Array& a) { return py::tuple(py::cast(a.shape())); })
      .def_property_readonly("strides", [](const Array& a) { return py::tuple(py::cast(a.strides())); })
      .def_property_readonly("size", [](const Array& a) { return a.size(); })
      .def_property_readonly("is_lazy", &Array::is_lazy)
      .def_property_readonly("pointer",
                             [](const Array& a) {
                               const py::gil_scoped_release release;
                               return reinterpret_cast<std::uintptr_t>(a.data());
                             })
      .def(
          "evaluate", [](const Array& a) { a.evaluate(); }, Release())
      .def("item_float", &Array::item, Release())
      .def("item_int", &Array::item_int, Release())
      .def(
          "to_floats", [](const Array& a) { return a.to_vector<double>(); }, Release())
      .def(
          "to_ints", [](const Array& a) { return a.to_vector<std::int64_t>(); }, Release())
      .def(
          "to_unsigned", [](const Array& a) { return a.to_vector<std::uint64_t>(); }, Release())
      .def(
          "slice",
          [](const Array& a, int dim, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
             std::optional<std::int64_t> step) {
            return a.slice(dim, {start, stop, step});
          },
          Release())
      .def("select", &Array::select, Release())
      .def("permute", &Array::permute, Release())
      .def("reshape", &Array::reshape, Release())
      .def("expand_dims", &Array::expand_dims, Release())
      .def("squeeze", &Array::squeeze, Release())
      .def("broadcast_to", &Array::broadcast_to, Release())
      .def("flip", &Array::flip, Release())
      .def("diagonal", &Array::diagonal, Release())
      .def(
          "astype", [](const Array& a, const std::string& t) { return a.astype(dtype_named(t)); }, Release())
      .def("copy", &Array::copy, Release())
      .def("contiguous", &Array::contiguous, Release())
      .def("assign", &Array::assign, Release())
      .def(
          "tads", [](const Array& a, const Dims& dims) { return a.along(dims).count(); }, Release())
      .def("tad", &Array::tensor_along_dimension, Release())
      .def("to_dlpack", [](const Array& a, bool versioned, bool copied) {
        {
          const py::gil_scoped_release release;
          a.evaluate();
        }
        return to_capsule(a, versioned, copied);
      });
}

void bind_creation(py::module_& m) {
  m.def(
      "empty", [](const Dims& s, const std::string& t) { return empty(s, dtype_named(t)); }, Release());
  m.def(
      "full", [](const Dims& s, double v, const std::string& t) { return full(s, v, dtype_named(t)); }, Release());
  m.def("scalar", [](double v, const std::string& t) { return scalar(v, dtype_named(t)); });
  m.def("scalar_int", [](std::int64_t v, const std::string& t) { return scalar_int(v, dtype_named(t)); });
  m.def(
      "full_int", [](const Dims& s, std::int64_t v, const std::string& t) { return full_int(s, v, dtype_named(t)); },
      Release());
  m.def(
      "from_floats",
      [](const std::vector<double>& v, const Dims& s, const std::string& t) {
        return from_memory(v.data(), s, DType::kF64).astype(dtype_named(t));
      },
      Release());
  m.def(
      "from_ints",
      [](const std::vector<std::int64_t>& v, const Dims& s, const std::string& t) {
        return from_memory(v.data(), s, DType::kI64).astype(dtype_named(t));
      },
      Release());
  m.def(
      "arange",
      [](double start, double stop, double step, const std::string& t) {
        return arange(start, stop, step, dtype_named(t));
      },
      Release());
  m.def(
      "linspace",
      [](double start, double stop, std::int64_t n, bool end, const std::string& t) {
        return linspace(start, stop, n, end, dtype_named(t));
      },
      Release());
  m.def(
      "eye",
      [](std::int64_t r, std::int64_t c, std::int64_t k, const std::string& t) { return eye(r, c, k, dtype_named(t)); },
      Release());
  m.def(
      "uniform",
      [](const Dims& s, std::uint64_t seed, std::uint64_t stream, const std::string& t) {
        return uniform(s, seed, stream, dtype_named(t));
      },
      Release());
  m.def(
      "normal",
      [](const Dims& s, std::uint64_t seed, std::uint64_t stream, const std::string& t) {
        return normal(s, seed, stream, dtype_named(t));
      },
      Release());
  m.def(
      "random_integers",
      [](std::int64_t low, std::int64_t high, const Dims& s, std::uint64_t seed, std::uint64_t stream,
         const std::string& t) { return random_integers(low, high, s, seed, stream, dtype_named(t)); },
      Release());
  m.def("save_npy", &save_npy, Release());
  m.def("load_npy", &load_npy, Release());
  m.def("from_dlpack", &from_capsule);
}

void bind_operators(py::module_& m) {
  m.def(
      "unary", [](const std::string& op, const Array& a) { return unary(op_named(op), a); }, Release());
  m.def(
      "binary", [](const std::string& op, const Array& a, const Array& b) { return binary(op_named(op), a, b); },
      Release());
  m.def("where", &where, Release());
  m.def("promote",
        [](const std::string& a, const std::string& b) { return name(promote(dtype_named(a), dtype_named(b))); });
  m.def(
      "reduce",
      [](const std::string& kind, const Array& a, const Dims& dims, bool keep) {
        return reduce(reduce_named(kind), a, dims, keep);
      },
      Release());
  m.def(
      "cumulative",
      [](const std::string& kind, const Array& a, int dim) { return cumulative(reduce_named(kind), a, dim); },
      Release());
  m.def("mean", &mean, Release());
  m.def("variance", &variance, Release());
  m.def("norm", &norm, Release());
  m.def("softmax", &softmax, Release());
  m.def("log_softmax", &log_softmax, Release());
  m.def("layer_norm", &layer_norm, Release());
  m.def("gelu", &gelu, Release());
  m.def("matmul", &matmul, Release());
  m.def(
      "conv2d",
      [](const Array& x, const Array& w, std::optional<Array> bias, std::int64_t stride, std::int64_t padding,
         std::int64_t dilation, std::int64_t groups) {
        return conv2d(x, w, bias ? &*bias : nullptr, {stride, padding, dilation, groups});
      },
      Release());
  m.def("take", &take, Release());
  m.def("take_along", &take_along, Release());
  m.def("scatter", &scatter, Release());
  m.def("concatenate", &concatenate, Release());
  m.def("stack", &stack, Release());
  m.def("nonzero", &nonzero, Release());
  m.def("masked_select", &masked_select, Release());
  m.def("masked_assign", &masked_assign, Release());
  m.def("argsort", &argsort, Release());
  m.def("sort", &sort, Release());
  m.def("searchsorted", &searchsorted, Release());
}

}  // namespace
}  // namespace ebb::array_python

PYBIND11_MODULE(_array, m) {
  using namespace ebb::array_python;
  py::register_local_exception_translator(translate);
  bind_array(m);
  bind_creation(m);
  bind_operators(m);
  ebb::python::bind_adoption(m, runtime);
  m.def("opened", [] { return g_runtime != nullptr; });
  m.def("open_runtime", &open_runtime, Release());
  m.def(
      "close_runtime", [] { ebb::use_runtime(nullptr); }, Release());
  m.def("set_threads", &ebb::set_array_threads);
  m.def(
      "use_opencl",
      [](const std::string& device, std::int64_t elements_min) {
        auto opened = ebb::OpenClDevice::open({.device = device});
        std::string description = opened->description();
        ebb::use_opencl(std::move(opened), elements_min);
        return description;
      },
      Release());
  m.def(
      "use_cpu", [] { ebb::use_opencl(nullptr); }, Release());
  m.attr("OPENCL_ELEMENTS_MIN") = ebb::kOpenClElementsMin;
  m.def("set_limits", [](std::uint32_t operators, std::uint32_t arguments, std::uint64_t bytes) {
    ebb::set_combine_limits({operators, arguments, bytes});
  });
  m.def("limits", [] {
    const ebb::CombineLimits now = ebb::combine_limits();
    return py::make_tuple(now.operators, now.arguments, now.held_bytes);
  });
  m.def("stats", &stats);
}
