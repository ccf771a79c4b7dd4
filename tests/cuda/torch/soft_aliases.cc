// See soft_aliases.h.
#include "soft_aliases.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "soft_memory.h"
#include "soft_stream.h"

namespace ebb::soft_device {
namespace {

std::size_t span_bytes(const at::Tensor& tensor) {
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 0) return 0;
    elements += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return static_cast<std::size_t>(elements) * tensor.itemsize();
}

at::Tensor make(const c10::Storage& storage, const at::Tensor& like, c10::DispatchKey key) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) made._set_conj(true);
  if (like.is_neg()) made._set_neg(true);
  return made;
}

}  // namespace

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta type) {
  return at::detail::empty_strided_generic(
      sizes, strides, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::typeMetaToScalarType(type));
}

at::Tensor Aliases::alias(const at::Tensor& tensor, bool written) {
  if (!tensor.defined() || tensor.device().type() != kType) return tensor;
  c10::StorageImpl* const device = tensor.storage().unsafeGetStorageImpl();
  auto found = cpu_.find(device);
  if (found == cpu_.end()) {
    // mutable_data(), as kernels ask for it: a storage may refuse.
    c10::DataPtr data(device->mutable_data(), c10::Device(c10::DeviceType::CPU));
    c10::Storage storage(c10::Storage::use_byte_size_t(), device->nbytes(), std::move(data), c10::GetCPUAllocator(),
                         true);
    device_.emplace(storage.unsafeGetStorageImpl(), tensor.storage());
    found = cpu_.emplace(device, std::move(storage)).first;
  }
  pairs_.push_back({tensor, make(found->second, tensor, c10::DispatchKey::CPU)});
  if (const std::size_t bytes = span_bytes(tensor); bytes > 0) {
    const auto* const first = static_cast<const char*>(device->data()) +
                              static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
    touches_.push_back({first, bytes, written});
  }
  return pairs_.back().cpu;
}

c10::IValue Aliases::argument(const c10::IValue& value, bool written) {
  if (value.isTensor()) return alias(value.toTensor(), written);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(alias(tensor, written));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor.has_value() ? std::optional(alias(*tensor, written)) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kType) return c10::Device(c10::DeviceType::CPU);
  if (value.isGenerator()) return at::detail::getDefaultCPUGenerator();
  return value;
}

void Aliases::take_over_shapes() {
  for (const auto& [cpu, device] : device_) {
    c10::StorageImpl& mine = *device.unsafeGetStorageImpl();
    if (cpu->nbytes() <= mine.nbytes()) continue;
    resize_storage(mine, cpu->nbytes());
    void* const to = mine.mutable_data();
    run_in_stream("resize", {{to, cpu->nbytes(), true}}, [&] { std::memcpy(to, cpu->data(), cpu->nbytes()); });
  }
  for (const Pair& pair : pairs_) {
    if (pair.cpu.sizes() == pair.device.sizes() && pair.cpu.strides() == pair.device.strides()) continue;
    pair.device.unsafeGetTensorImpl()->set_sizes_and_strides(pair.cpu.sizes(), pair.cpu.strides());
  }
}

at::Tensor Aliases::result_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != c10::DeviceType::CPU) return tensor;
  for (const Pair& pair : pairs_) {
    if (pair.cpu.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl()) return pair.device;
  }
  if (const auto found = device_.find(tensor.storage().unsafeGetStorageImpl()); found != device_.end()) {
    return make(found->second, tensor, c10::DispatchKey::PrivateUse1);
  }
  at::Tensor made = empty_strided(tensor.sizes(), tensor.strides(), tensor.dtype());
  if (const std::size_t bytes = span_bytes(tensor); bytes > 0) {
    void* const to = made.mutable_data_ptr();
    run_in_stream("result", {{to, bytes, true}}, [&] { std::memcpy(to, tensor.const_data_ptr(), bytes); });
  }
  if (tensor.is_conj()) made._set_conj(true);
  if (tensor.is_neg()) made._set_neg(true);
  return made;
}

c10::IValue Aliases::result(const c10::IValue& value) {
  if (value.isTensor()) return result_of(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(result_of(tensor));
    return list;
  }
  return value;
}

}  // namespace ebb::soft_device
