// New arrays: filled, counted, copied in, or over foreign memory.
#include <cmath>
#include <cstring>

#include "array/ops/operands.h"
#include "array/pass/executor.h"

namespace ebb {
namespace {

using array::invalid;
using array::NodePtr;

constexpr std::int64_t kTaskElements = 1 << 16;

// Fills a new f64 array by `value(i)` and converts it.
template <typename Value>
Array generate_here(const char* who, std::int64_t count, DType dtype, const Value& value) {
  const NodePtr node = array::new_memory(array::intern(who, DType::kF64, {count}));
  auto* const out = static_cast<double*>(node->storage->data);
  array::run_tasks((count + kTaskElements - 1) / kTaskElements, [&](std::int64_t task) {
    const std::int64_t end = std::min(count, (task + 1) * kTaskElements);
    for (std::int64_t i = task * kTaskElements; i < end; ++i) out[i] = value(i);
  });
  return array::wrap(node).astype(dtype);
}

template <typename Value>
Array generate(const char* who, std::int64_t count, DType dtype, const Value& value) {
  return array::run_on_host([&] { return generate_here(who, count, dtype, value); });
}

Array filled(const char* who, const Dims& shape, NodePtr scalar) {
  const auto info = array::intern(who, scalar->dtype(), shape);
  const NodePtr node = array::new_memory(info);
  std::lock_guard lock(array::evaluation_mutex());
  array::write(scalar, {static_cast<std::byte*>(node->storage->data), info, node->storage.get()});
  return array::wrap(node);
}

}  // namespace

Array empty(const Dims& shape, DType dtype) {
  return array::wrap(array::new_memory(array::intern("empty", dtype, shape)));
}

Array full(const Dims& shape, double value, DType dtype) {
  return filled("full", shape, array::new_scalar(value, dtype, false));
}

Array full_int(const Dims& shape, std::int64_t value, DType dtype) {
  return filled("full", shape, array::new_scalar_int(value, dtype));
}

Array scalar(double value, DType dtype) { return array::wrap(array::new_scalar(value, dtype, false)); }
Array scalar_int(std::int64_t value, DType dtype) { return array::wrap(array::new_scalar_int(value, dtype)); }

Array arange(double start, double stop, double step, DType dtype) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    invalid("arange", "start, stop and step must be finite, and the step not 0");
  }
  const double steps = std::ceil((stop - start) / step);
  if (steps > 0x1p53) invalid("arange", "more than 2^53 elements");
  const auto count = steps > 0 ? static_cast<std::int64_t>(steps) : 0;
  return generate("arange", count, dtype, [=](std::int64_t i) { return start + static_cast<double>(i) * step; });
}

Array linspace(double start, double stop, std::int64_t count, bool endpoint, DType dtype) {
  if (count < 0) invalid("linspace", "a negative number of elements");
  if (!is_float(dtype)) invalid("linspace", "needs a floating type");
  const auto intervals = static_cast<double>(endpoint ? count - 1 : count);
  const double step = intervals > 0 ? (stop - start) / intervals : 0.0;
  return generate("linspace", count, dtype, [=](std::int64_t i) {
    return endpoint && i == count - 1 && i > 0 ? stop : start + static_cast<double>(i) * step;
  });
}

Array eye(std::int64_t rows, std::int64_t columns, std::int64_t offset, DType dtype) {
  Array result = full({rows, columns}, 0.0, dtype);
  Array diagonal = result.diagonal(offset);
  if (diagonal.size() > 0) diagonal.assign(full({}, 1.0, dtype));
  return result;
}

Array from_memory(const void* data, const Dims& shape, DType dtype) {
  Array result = empty(shape, dtype);
  const auto bytes = static_cast<std::size_t>(result.size()) * size_of(dtype);
  array::write_bytes(*result.node()->storage, data, bytes);
  return result;
}

Array from_foreign(void* data, const Dims& shape, const Dims& strides, DType dtype, std::shared_ptr<void> owner) {
  if (strides.size() != shape.size()) invalid("from_foreign", "one stride for each dimension is needed");
  auto info = array::intern("from_foreign", dtype, shape, strides);
  if (data == nullptr && info->count > 0) invalid("from_foreign", "a null pointer");
  auto node = std::make_shared<array::Node>();
  node->storage = array::adopt_storage(data, 0, std::move(owner));
  node->shape = std::move(info);
  return array::wrap(node);
}

}  // namespace ebb
