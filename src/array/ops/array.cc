// Array: what a handle tells about itself, and elements in and out.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "array/ops/operands.h"

namespace ebb {
namespace {

constexpr std::int64_t kPrintedMax = 1000;

}  // namespace

Array::Array() : Array(array::new_scalar(0.0, DType::kF32, false)) {}
Array::Array(double value) : Array(array::new_scalar(value, DType::kF64, true)) {}

DType Array::dtype() const { return node_->shape->dtype; }
const Dims& Array::shape() const { return node_->shape->sizes; }
const Dims& Array::strides() const { return node_->shape->strides; }
std::int64_t Array::size() const { return node_->shape->count; }
std::int64_t Array::size(int dim) const { return shape()[array::checked_dim("size", dim, rank())]; }
bool Array::is_lazy() const { return !node_->is_leaf(); }
bool Array::is_contiguous() const { return node_->shape->contiguous; }

const Array& Array::evaluate() const {
  array::evaluate(node_);
  return *this;
}

const void* Array::data() const {
  const array::Node& node = array::ready_node(*this);
  if (node.is_on_device()) {
    array::invalid("data", "the array lies on a GPU, where this process cannot look; to_vector() or item() copy it");
  }
  return node.data();
}

void Array::require_type(DType dtype) const {
  if (dtype != this->dtype()) {
    array::invalid("data_as", std::string("the array has ") + name(this->dtype()) + ", not " + name(dtype));
  }
}

void Array::copy_out(DType dtype, void* out) const {
  const Array converted = astype(dtype).contiguous().evaluate();
  const array::Node& node = *converted.node();
  const auto bytes = static_cast<std::size_t>(converted.size()) * size_of(dtype);
  if (bytes == 0) return;
  if (node.is_on_device()) {
    node.storage->device->copy_out({static_cast<std::byte*>(out), bytes}, node.data());
  } else {
    std::memcpy(out, node.data(), bytes);
  }
}

double Array::item() const {
  if (size() != 1) array::invalid("item", "the array has " + std::to_string(size()) + " elements, not one");
  double value = 0;
  copy_out(DType::kF64, &value);
  return value;
}

std::int64_t Array::item_int() const {
  if (size() != 1) array::invalid("item", "the array has " + std::to_string(size()) + " elements, not one");
  std::int64_t value = 0;
  copy_out(DType::kI64, &value);
  return value;
}

std::string Array::to_string() const {
  std::ostringstream text;
  text << name(dtype()) << " " << array::to_text(shape());
  if (size() > kPrintedMax) {
    text << " of " << size() << " elements";
    return text.str();
  }
  const auto values = to_vector<double>();
  text << " [";
  for (std::size_t i = 0; i < values.size(); ++i) text << (i ? ", " : "") << values[i];
  text << "]";
  return text.str();
}

Array Array::copy() const {
  evaluate();
  const auto shape = array::intern("copy", dtype(), this->shape());
  const auto node = array::new_memory(shape);
  std::lock_guard lock(array::evaluation_mutex());
  array::write(node_, {static_cast<std::byte*>(node->storage->data), shape, node->storage.get()});
  return array::wrap(node);
}

Array Array::contiguous() const { return is_contiguous() ? *this : copy(); }

namespace array {

Array source_for(const char* who, const Array& target, const Array& value) {
  if (target.node()->kind == Kind::kScalar) invalid(who, "a scalar has no memory to write to; use full()");
  for (int d = 0; d < target.rank(); ++d) {
    if (target.shape()[d] > 1 && target.strides()[d] == 0) {
      invalid(who, "several elements of a broadcast array share one place in memory; copy() it first");
    }
  }
  target.evaluate();
  const Array source = value.evaluate();
  evaluate_readers(*target.node()->storage);
  // Of the same memory: elements could be overwritten before they are read.
  return source.node()->storage == target.node()->storage ? source.copy() : source;
}

}  // namespace array

void Array::assign(const Array& value) {
  const Dims joint = array::broadcast_shapes("assign", shape(), value.shape());
  if (joint != shape()) {
    array::invalid("assign", "a value of shape " + array::to_text(value.shape()) + " does not fit into " +
                                 array::to_text(shape()));
  }
  const Array source = array::source_for("assign", *this, value.astype(dtype()));
  std::lock_guard lock(array::evaluation_mutex());
  auto* const data = const_cast<std::byte*>(node_->data());
  array::write(source.node(), {data, node_->shape, node_->storage.get()});
}

}  // namespace ebb
