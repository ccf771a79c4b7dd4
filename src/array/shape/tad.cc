// TAD layouts.
#include "array/shape/tad.h"

#include <algorithm>

#include "array/shape/intern_cache.h"

namespace ebb::array {
namespace {

InternCache<TadLayout>& layouts_cache() {
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
  return layouts_cache().get(key, [&] { return make(*shape, dims); });
}

CacheStats tad_cache_stats() { return layouts_cache().stats(); }

}  // namespace ebb::array
