// TAD layouts, and the public face of them.
#include "array/tad.h"

#include <algorithm>

#include "array/intern_cache.h"
#include "array/node.h"

namespace ebb {
namespace array {
namespace {

InternCache<TadLayout>& cache() {
  static auto* const layouts = new InternCache<TadLayout>(4096);
  return *layouts;
}

TadLayout make(const ShapeInfo& shape, const Dims& dims) {
  TadLayout layout;
  Dims sizes, strides;
  layout.count = 1;
  for (int d = 0; d < static_cast<int>(shape.sizes.size()); ++d) {
    if (std::binary_search(dims.begin(), dims.end(), d)) {
      sizes.push_back(shape.sizes[d]);
      strides.push_back(shape.strides[d]);
    } else {
      layout.outer_sizes.push_back(shape.sizes[d]);
      layout.outer_strides.push_back(shape.strides[d]);
      layout.count *= shape.sizes[d];
    }
  }
  layout.tensor = intern("along", shape.dtype, sizes, strides);
  return layout;
}

}  // namespace

std::shared_ptr<const TadLayout> tad_layout(const ShapePtr& shape, const Dims& dims) {
  Key key;
  key.push_back(static_cast<int>(shape->dtype));
  key.insert(key.end(), shape->sizes.begin(), shape->sizes.end());
  key.insert(key.end(), shape->strides.begin(), shape->strides.end());
  key.push_back(static_cast<std::int64_t>(dims.size()));
  key.insert(key.end(), dims.begin(), dims.end());
  return cache().get(key, [&] { return make(*shape, dims); });
}

CacheStats tad_cache_stats() { return cache().stats(); }

}  // namespace array

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
