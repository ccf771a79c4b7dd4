// Capsules from and to arrays.
#include "bindings/array/dlpack.h"

#include <memory>
#include <string>

namespace py = pybind11;

namespace ebb::array_python {
namespace {

constexpr std::int32_t kCpu = 1;
constexpr std::uint64_t kReadOnly = 1, kCopied = 2;

template <typename Managed>
constexpr const char* kName = "dltensor";
template <>
constexpr const char* kName<DLManagedTensorVersioned> = "dltensor_versioned";

// What keeps an exported array and its sizes.
struct Exported {
  Array array;
  Dims shape, strides;
};

DLDataType type_of(DType dtype) {
  const std::uint8_t code = dtype == DType::kBool        ? 6
                            : dtype == DType::kBF16      ? 4
                            : is_float(dtype)            ? 2
                            : is_unsigned_integer(dtype) ? 1
                                                         : 0;
  return {code, static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

DType dtype_of(const DLDataType& type) {
  for (int t = 0; t < kDTypes; ++t) {
    const DLDataType known = type_of(static_cast<DType>(t));
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return static_cast<DType>(t);
  }
  throw py::buffer_error("from_dlpack: element type " + std::to_string(type.code) + " with " +
                         std::to_string(type.bits) + " bits is not supported");
}

template <typename Managed>
py::capsule make_capsule(const Array& array, Managed* managed) {
  auto* const exported = new Exported{array, array.shape(), array.strides()};
  managed->dl_tensor = {
      const_cast<void*>(array.data()), {kCpu, 0}, array.rank(), type_of(array.dtype()), exported->shape.data(),
      exported->strides.data(),        0};
  managed->manager_ctx = exported;
  managed->deleter = [](Managed* self) {
    delete static_cast<Exported*>(self->manager_ctx);
    delete self;
  };
  return py::capsule(managed, kName<Managed>, [](PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kName<Managed>) == 0) return;  // taken
    auto* const own = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName<Managed>));
    own->deleter(own);
  });
}

template <typename Managed>
Array taken_over(const py::capsule& capsule, bool read_only) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), kName<Managed>));
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.device_type != kCpu) throw py::buffer_error("from_dlpack: only memory of the CPU can be shared");
  const DType dtype = dtype_of(tensor.dtype);
  const Dims shape(tensor.shape, tensor.shape + tensor.ndim);
  Dims strides(shape.size(), 1);
  if (tensor.strides != nullptr) {
    strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  } else {
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<std::int64_t>(shape[d], 1);
  }
  auto* const data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) != 0) {
    throw py::buffer_error("from_dlpack: the memory is not aligned to its elements");
  }
  // A capsule keeps the pointer to its name, which is looked at until the process has ended.
  static const auto& kept = *new std::string(std::string("used_") + kName<Managed>);
  PyCapsule_SetName(capsule.ptr(), kept.c_str());
  const std::shared_ptr<void> owner(managed, [](void* held) {
    const py::gil_scoped_acquire gil;  // the producer may be Python's
    auto* const own = static_cast<Managed*>(held);
    if (own->deleter != nullptr) own->deleter(own);
  });
  const Array shared = from_foreign(data, shape, strides, dtype, owner);
  if (!read_only) return shared;
  const py::gil_scoped_release release;
  return shared.copy();
}

}  // namespace

py::capsule to_capsule(const Array& array, bool versioned, bool copied) {
  if (!versioned) return make_capsule(array, new DLManagedTensor{});
  auto* const managed = new DLManagedTensorVersioned{};
  managed->major = 1;
  managed->flags = copied ? kCopied : 0;
  return make_capsule(array, managed);
}

Array from_capsule(const py::capsule& capsule) {
  const std::string name = capsule.name() == nullptr ? "" : capsule.name();
  if (name == kName<DLManagedTensorVersioned>) {
    const auto* const managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), name.c_str()));
    if (managed->major != 1) throw py::buffer_error("from_dlpack: version " + std::to_string(managed->major));
    return taken_over<DLManagedTensorVersioned>(capsule, (managed->flags & kReadOnly) != 0);
  }
  if (name != kName<DLManagedTensor>) throw py::buffer_error("from_dlpack: a used or foreign capsule: " + name);
  return taken_over<DLManagedTensor>(capsule, false);
}

}  // namespace ebb::array_python
