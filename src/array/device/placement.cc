// See placement.h.
#include "array/device/placement.h"

namespace ebb::array {

NodePtr moved(const NodePtr& node, const std::shared_ptr<CudaStream>& device) {
  if (node->kind == Kind::kScalar || node->storage->device == device) return node;
  if (node->storage->device != nullptr && device != nullptr) return moved(moved(node, nullptr), device);
  const ShapeInfo& shape = *node->shape;
  const auto element = static_cast<std::int64_t>(size_of(shape.dtype));
  const auto bytes = static_cast<std::size_t>(shape.count == 0 ? 0 : (shape.highest - shape.lowest + 1) * element);
  auto copy = std::make_shared<Node>();
  copy->storage = allocate_storage(bytes, device);
  copy->shape = node->shape;
  copy->offset = -shape.lowest;
  const std::byte* const from = node->data() + shape.lowest * element;
  if (device != nullptr) {
    write_bytes(*copy->storage, from, bytes);
  } else {
    node->storage->device->copy_out({static_cast<std::byte*>(copy->storage->data), bytes}, from);
  }
  return copy;
}

Combined on_host(Combined combined) {
  for (NodePtr& operand : combined.operands) operand = moved(operand, nullptr);
  return combined;
}

void write_bytes(const Storage& storage, const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  if (storage.device != nullptr) {
    storage.device->copy_in(storage.data, {static_cast<const std::byte*>(data), bytes});
  } else {
    std::memcpy(storage.data, data, bytes);
  }
}

}  // namespace ebb::array
