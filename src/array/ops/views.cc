// Views: other shapes over the same memory.
#include <algorithm>
#include <numeric>

#include "array/ops/operands.h"
#include "array/shape/tad.h"

namespace ebb {
namespace {

using array::invalid;
using array::NodePtr;
using array::ShapeInfo;

Array view(const Array& base, const char* who, const Dims& sizes, const Dims& strides, std::int64_t shift = 0) {
  const array::Node& node = array::ready_node(base);
  auto shape = array::intern(who, base.dtype(), sizes, strides);
  if (node.kind == array::Kind::kScalar) {  // has no memory of its own yet
    const NodePtr memory = array::new_memory(array::intern(who, base.dtype(), {}));
    array::write_bytes(*memory->storage, node.data(), size_of(base.dtype()));
    return array::wrap(array::view_of(memory, std::move(shape), 0));
  }
  return array::wrap(array::view_of(base.node(), std::move(shape), node.offset + shift));
}

// Strides of `to` over memory that has the sizes and strides of `from`; false if only a copy can have that shape.
bool strides_for(const ShapeInfo& from, const Dims& to, Dims& strides) {
  // Runs of dimensions of `from` that are walked through evenly: their sizes and last strides.
  Dims run_sizes, run_strides;
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] == 1) continue;
    if (!run_sizes.empty() && run_strides.back() == from.strides[d] * from.sizes[d]) {
      run_sizes.back() *= from.sizes[d];
      run_strides.back() = from.strides[d];
    } else {
      run_sizes.push_back(from.sizes[d]);
      run_strides.push_back(from.strides[d]);
    }
  }
  // From the end, the sizes of `to` must divide them run by run.
  strides.assign(to.size(), 1);
  std::size_t run = run_sizes.size();
  std::int64_t left = 1, stride = 1;
  for (std::size_t e = to.size(); e-- > 0;) {
    if (to[e] == 1) continue;
    if (left == 1) {
      if (run == 0) return false;
      --run;
      left = run_sizes[run];
      stride = run_strides[run];
    }
    if (left % to[e] != 0) return false;
    strides[e] = stride;
    stride *= to[e];
    left /= to[e];
  }
  return true;
}

std::int64_t clamped(std::int64_t value, std::int64_t low, std::int64_t high) { return std::clamp(value, low, high); }

}  // namespace

Array Array::slice(int dim, const Slice& range) const {
  const int d = array::checked_dim("slice", dim, rank());
  const std::int64_t length = shape()[d], step = range.step.value_or(1);
  if (step == 0) invalid("slice", "the step is 0");
  const bool forward = step > 0;
  const std::int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  const auto place = [&](const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (!given) return otherwise;
    return clamped(*given < 0 ? *given + length : *given, low, high);
  };
  const std::int64_t start = place(range.start, forward ? low : high);
  const std::int64_t stop = place(range.stop, forward ? high : low);
  const std::int64_t distance = forward ? stop - start : start - stop;
  const std::int64_t stride = forward ? step : step == INT64_MIN ? INT64_MAX : -step;
  Dims sizes = shape(), now = strides();
  sizes[d] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  const std::int64_t shift = sizes[d] == 0 ? 0 : start * now[d];
  now[d] = sizes[d] <= 1 ? now[d] : now[d] * step;
  return view(*this, "slice", sizes, now, shift);
}

Array Array::select(int dim, std::int64_t index) const {
  const int d = array::checked_dim("select", dim, rank());
  const std::int64_t length = shape()[d];
  if (index < -length || index >= length) {
    invalid("select", "index " + std::to_string(index) + " of a dimension of size " + std::to_string(length));
  }
  Dims sizes = shape(), now = strides();
  const std::int64_t shift = (index < 0 ? index + length : index) * now[d];
  sizes.erase(sizes.begin() + d);
  now.erase(now.begin() + d);
  return view(*this, "select", sizes, now, shift);
}

Array Array::permute(const Dims& order) const {
  if (static_cast<int>(order.size()) != rank()) {
    invalid("permute", std::to_string(order.size()) + " dimensions named of " + std::to_string(rank()));
  }
  if (!order.empty()) array::checked_dims("permute", order, rank());  // each once
  Dims sizes, now;
  for (std::int64_t dim : order) {
    const int d = array::checked_dim("permute", static_cast<int>(dim), rank());
    sizes.push_back(shape()[d]);
    now.push_back(strides()[d]);
  }
  return view(*this, "permute", sizes, now);
}

Array Array::transpose() const {
  if (rank() < 2) invalid("transpose", "needs two dimensions");
  Dims order(rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank() - 1], order[rank() - 2]);
  return permute(order);
}

Array Array::reshape(Dims sizes) const {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& size : sizes) {
    if (size == -1 && open == nullptr) {
      open = &size;
    } else if (size < 0) {
      invalid("reshape", "negative size in " + array::to_text(sizes));
    } else if (__builtin_mul_overflow(known, size, &known)) {
      invalid("reshape", "shape " + array::to_text(sizes) + " is too large");
    }
  }
  if (open != nullptr && (known == 0 || size() % known != 0)) {
    invalid("reshape", "no size in place of -1 makes " + array::to_text(sizes) + " of " + array::to_text(shape()));
  }
  if (open != nullptr) {
    *open = size() / known;
  } else if (known != size()) {
    invalid("reshape", array::to_text(shape()) + " does not have as many elements as " + array::to_text(sizes));
  }
  evaluate();
  if (is_contiguous()) return view(*this, "reshape", sizes, array::c_strides(sizes));
  Dims strides;
  if (strides_for(*node_->shape, sizes, strides)) return view(*this, "reshape", sizes, strides);
  return copy().reshape(sizes);
}

Array Array::expand_dims(int dim) const {
  const int d = array::checked_dim("expand_dims", dim, rank() + 1);
  Dims sizes = shape(), now = strides();
  sizes.insert(sizes.begin() + d, 1);
  now.insert(now.begin() + d, 1);
  return view(*this, "expand_dims", sizes, now);
}

Array Array::squeeze(const Dims& dims) const {
  if (dims.empty()) return *this;
  const Dims gone = array::checked_dims("squeeze", dims, rank());
  Dims sizes, now;
  for (int d = 0; d < rank(); ++d) {
    if (std::binary_search(gone.begin(), gone.end(), d)) {
      if (shape()[d] != 1) invalid("squeeze", "dimension " + std::to_string(d) + " of " + array::to_text(shape()));
      continue;
    }
    sizes.push_back(shape()[d]);
    now.push_back(strides()[d]);
  }
  return view(*this, "squeeze", sizes, now);
}

Array Array::broadcast_to(const Dims& sizes) const {
  if (array::broadcast_shapes("broadcast_to", shape(), sizes) != sizes) {
    invalid("broadcast_to", array::to_text(shape()) + " does not broadcast to " + array::to_text(sizes));
  }
  evaluate();
  return view(*this, "broadcast_to", sizes, array::broadcast_strides(*node_->shape, sizes));
}

Array Array::flip(const Dims& dims) const {
  Array result = *this;
  for (std::int64_t d : array::checked_dims("flip", dims, rank())) {
    result = result.slice(static_cast<int>(d), {{}, {}, -1});
  }
  return result;
}

Array Array::diagonal(std::int64_t offset) const {
  if (rank() < 2) invalid("diagonal", "needs two dimensions");
  const std::int64_t rows = size(-2), columns = size(-1);
  const std::int64_t row = offset < 0 ? -offset : 0, column = offset > 0 ? offset : 0;
  Dims sizes = shape(), now = strides();
  const std::int64_t length = row >= rows || column >= columns ? 0 : std::min(rows - row, columns - column);
  const std::int64_t shift = length == 0 ? 0 : row * now[rank() - 2] + column * now[rank() - 1];
  const std::int64_t stride = now[rank() - 2] + now[rank() - 1];
  sizes.resize(sizes.size() - 2);
  now.resize(now.size() - 2);
  sizes.push_back(length);
  now.push_back(stride);
  return view(*this, "diagonal", sizes, now, shift);
}

TensorsAlong::TensorsAlong(Array array, const Dims& dims) : array_(std::move(array)) {
  array_.evaluate();
  layout_ = array::tad_layout(array_.node()->shape, array::checked_dims("along", dims, array_.rank()));
}

std::int64_t TensorsAlong::count() const { return layout_->count; }

const Dims& TensorsAlong::shape() const { return layout_->tensor->sizes; }

Array TensorsAlong::operator[](std::int64_t i) const {
  if (i < 0 || i >= layout_->count) {
    array::invalid("along", "tensor " + std::to_string(i) + " of " + std::to_string(layout_->count));
  }
  const auto& node = array_.node();
  if (node->kind == array::Kind::kScalar) return array_;
  return array::wrap(array::view_of(node, layout_->tensor, node->offset + layout_->offset(i)));
}

TensorsAlong Array::along(const Dims& dims) const { return TensorsAlong(*this, dims); }

Array Array::tensor_along_dimension(std::int64_t index, const Dims& dims) const { return along(dims)[index]; }

}  // namespace ebb
