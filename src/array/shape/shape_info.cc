// ShapeInfo: checked once when interned; broadcasting.
#include "array/shape/shape_info.h"

#include <algorithm>

#include "array/shape/intern_cache.h"
#include "ebb/status.h"

namespace ebb::array {
namespace {

InternCache<ShapeInfo>& shapes_cache() {
  static auto* const shapes = new InternCache<ShapeInfo>(8192);  // never destroyed: arrays may be, at exit
  return *shapes;
}

ShapeInfo make(const char* who, DType dtype, const Dims& sizes, const Dims& strides) {
  ShapeInfo info{dtype, sizes, strides};
  info.count = 1;
  info.contiguous = true;
  const auto limit = kBytesMax / static_cast<std::int64_t>(size_of(dtype));
  std::int64_t extent = 1;  // as if no size were 0
  for (std::int64_t size : sizes) {
    if (size < 0) invalid(who, "negative size in " + to_text(sizes));
    if (size != 0 && extent > limit / size) {
      invalid(who, "shape " + to_text(sizes) + " has more than 2^56 bytes of " + name(dtype));
    }
    extent *= std::max<std::int64_t>(size, 1);
    info.count *= size;
  }
  std::int64_t expected = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    if (sizes[d] > 1 && strides[d] != expected) info.contiguous = false;
    expected *= sizes[d];
    if (info.count == 0) continue;
    (strides[d] < 0 ? info.lowest : info.highest) += (sizes[d] - 1) * strides[d];
  }
  if (info.count == 0) info.contiguous = true;
  return info;
}

}  // namespace

void invalid(const char* who, const std::string& what) {
  throw Error(Status::kInvalid, std::string(who) + ": " + what);
}

ShapePtr intern(const char* who, DType dtype, const Dims& sizes, const Dims& strides) {
  if (sizes.size() > kRankMax) {
    invalid(who, std::to_string(sizes.size()) + " dimensions; at most " + std::to_string(kRankMax));
  }
  Key key;
  key.reserve(1 + 2 * sizes.size());
  key.push_back(static_cast<int>(dtype));
  key.insert(key.end(), sizes.begin(), sizes.end());
  key.insert(key.end(), strides.begin(), strides.end());
  return shapes_cache().get(key, [&] { return make(who, dtype, sizes, strides); });
}

ShapePtr intern(const char* who, DType dtype, const Dims& sizes) { return intern(who, dtype, sizes, c_strides(sizes)); }

CacheStats shape_cache_stats() { return shapes_cache().stats(); }

Dims c_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  std::uint64_t stride = 1;  // may wrap for shapes that intern() then refuses
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(sizes[d], 1));
  }
  return strides;
}

std::string to_text(const Dims& sizes) {
  std::string text = "(";
  for (std::size_t d = 0; d < sizes.size(); ++d) text += (d ? ", " : "") + std::to_string(sizes[d]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

Dims broadcast_shapes(const char* who, const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    std::int64_t& size = result[offset + d];
    if (size == 1) {
      size = shorter[d];
    } else if (shorter[d] != 1 && shorter[d] != size) {
      invalid(who, "shapes " + to_text(a) + " and " + to_text(b) +
                       " do not broadcast; from the last dimension on, sizes must be equal or 1");
    }
  }
  return result;
}

Dims broadcast_strides(const ShapeInfo& from, const Dims& to) {
  Dims strides(to.size(), 0);
  const std::size_t offset = to.size() - from.sizes.size();
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] != 1) strides[offset + d] = from.strides[d];
  }
  return strides;
}

int checked_dim(const char* who, int dim, int rank) {
  if (dim < -rank || dim >= rank) {
    invalid(who, "dimension " + std::to_string(dim) + " of an array with " + std::to_string(rank) + " dimensions");
  }
  return dim < 0 ? dim + rank : dim;
}

Dims checked_dims(const char* who, const Dims& dims, int rank) {
  Dims result;
  if (dims.empty()) {
    for (int d = 0; d < rank; ++d) result.push_back(d);
    return result;
  }
  for (std::int64_t dim : dims) {
    if (dim < -rank || dim >= rank) {
      invalid(who, "dimension " + std::to_string(dim) + " of an array with " + std::to_string(rank) + " dimensions");
    }
    result.push_back(dim < 0 ? dim + rank : dim);
  }
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) invalid(who, "a dimension is named twice");
  return result;
}

}  // namespace ebb::array
