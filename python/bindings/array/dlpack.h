// DLPack, the exchange of arrays in memory between libraries (https://dmlc.github.io/dlpack, version 1.0 and before):
// its structures, which are an ABI, and capsules from and to arrays.
//
// A capsule owns a DLManagedTensor until somebody takes it, which is told by renaming the capsule. Called with the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "ebb/array.h"

namespace ebb::array_python {

struct DLDevice {
  std::int32_t device_type;  // 1: memory of the CPU
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 6 bool
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; may be null: C order
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  std::uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;  // 1: read-only, 2: copied
  DLTensor dl_tensor;
};

// The array must have been evaluated. It lives until the consumer is done.
pybind11::capsule to_capsule(const Array& array, bool versioned, bool copied);
// Shares the memory; of one that is read-only, makes a copy.
Array from_capsule(const pybind11::capsule& capsule);

}  // namespace ebb::array_python
