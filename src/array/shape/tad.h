// TadLayout: how an array splits into tensors along dimensions: the shape of each, and where each begins. Immutable and
// interned by shape and dimensions. Array::along(), cumulative operators and sorts go through it.
#pragma once

#include <memory>

#include "array/shape/shape_info.h"

namespace ebb::array {

struct TadLayout {
  ShapePtr tensor;   // of each tensor: the sizes and strides of the chosen dimensions
  Dims outer_sizes;  // of the other dimensions
  Dims outer_strides;
  std::int64_t count = 0;  // tensors

  // Elements from the array's first to that of tensor `index`.
  std::int64_t offset(std::int64_t index) const { return offset_of(index, outer_sizes, outer_strides); }
};

// `dims` as checked_dims() gives them.
std::shared_ptr<const TadLayout> tad_layout(const ShapePtr& shape, const Dims& dims);
CacheStats tad_cache_stats();

}  // namespace ebb::array
