// Leaves, and who lazily reads a piece of memory.
#include "array/graph/node.h"

#include <algorithm>

#include "array/kernels/kernel.h"

namespace ebb::array {

NodePtr new_memory(ShapePtr shape) {
  auto node = std::make_shared<Node>();
  node->storage = allocate_storage(static_cast<std::size_t>(shape->count) * size_of(shape->dtype));
  node->shape = std::move(shape);
  return node;
}

NodePtr view_of(const NodePtr& base, ShapePtr shape, std::int64_t offset) {
  auto node = std::make_shared<Node>();
  node->storage = base->storage;
  node->shape = std::move(shape);
  node->offset = offset;
  return node;
}

NodePtr new_scalar(double value, DType dtype, bool weak) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::kScalar;
  node->shape = intern("scalar", dtype, {});
  node->weak = weak;
  alignas(64) double in[kPad] = {value};
  alignas(64) double registers[kPad] = {};
  alignas(64) double wrapped[kPad] = {};
  const Compute type = compute_of(dtype);
  find_cast(Compute::kF64, type, size_of(dtype) == 2)(in, nullptr, nullptr, registers, kPad);
  const Kernel wrap_kernel = find_wrap(dtype);
  if (wrap_kernel != nullptr) wrap_kernel(registers, nullptr, nullptr, wrapped, kPad);
  find_store(dtype)(wrap_kernel != nullptr ? wrapped : registers, node->scalar.data(), 1, 1);
  return node;
}

NodePtr new_scalar_int(std::int64_t value, DType dtype) {
  if (is_float(dtype)) return new_scalar(static_cast<double>(value), dtype, false);
  auto node = std::make_shared<Node>();
  node->kind = Kind::kScalar;
  node->shape = intern("scalar", dtype, {});
  alignas(8) std::int64_t in = dtype == DType::kBool ? value != 0 : value;
  std::memcpy(node->scalar.data(), &in, size_of(dtype));  // little-endian: the low bytes
  return node;
}

void register_reader(const NodePtr& node, const NodePtr& input) {
  if (!input->storage) return;
  Storage& storage = *input->storage;
  std::lock_guard lock(storage.pending_mutex);
  auto& pending = storage.pending;
  if (pending.size() >= storage.pending_prune_at) {
    std::erase_if(pending, [](const std::weak_ptr<Node>& weak) {
      const NodePtr strong = weak.lock();
      return strong == nullptr || strong->is_leaf();
    });
    storage.pending_prune_at = std::max<std::size_t>(64, 2 * pending.size());
  }
  pending.push_back(node);
}

std::mutex& evaluation_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace ebb::array
