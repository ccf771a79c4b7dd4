// ShapeInfo: everything about an array but its memory: type, sizes, strides, order. Immutable and interned, so that
// equal arrays share one. Any thread.
//
// Invariant: size() fits 2^56 bytes, rank at most kRankMax; `lowest` and `highest` are the offsets, in elements, of the
// first and the last byte-wise element, so an array touches [data + lowest, data + highest].
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ebb/array/types.h"

namespace ebb::array {

inline constexpr int kRankMax = 32;
inline constexpr std::int64_t kBytesMax = std::int64_t{1} << 56;

struct ShapeInfo {
  DType dtype;
  Dims sizes, strides;
  std::int64_t count = 0;  // elements
  std::int64_t lowest = 0, highest = 0;
  bool contiguous = true;  // C order without gaps
};
using ShapePtr = std::shared_ptr<const ShapeInfo>;

// Throw Error(kInvalid) for negative sizes, too many dimensions or bytes; `who` is named in the message.
ShapePtr intern(const char* who, DType dtype, const Dims& sizes, const Dims& strides);
ShapePtr intern(const char* who, DType dtype, const Dims& sizes);  // C order
CacheStats shape_cache_stats();

Dims c_strides(const Dims& sizes);
// Of the element with this number in C order.
inline std::int64_t offset_of(std::int64_t number, const Dims& sizes, const Dims& strides) {
  std::int64_t sum = 0;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    sum += number % sizes[d] * strides[d];
    number /= sizes[d];
  }
  return sum;
}
std::string to_text(const Dims& sizes);  // "(2, 3)"
// The shape that `a` and `b` broadcast to (NumPy's rules).
Dims broadcast_shapes(const char* who, const Dims& a, const Dims& b);
// Strides of an array seen as the larger shape `to`: 0 where it repeats. `to` must be a broadcast of it.
Dims broadcast_strides(const ShapeInfo& from, const Dims& to);
// A dimension number in [-rank, rank) as one in [0, rank).
int checked_dim(const char* who, int dim, int rank);
// The same for a list, sorted; empty means all. Throws for a dimension named twice.
Dims checked_dims(const char* who, const Dims& dims, int rank);
[[noreturn]] void invalid(const char* who, const std::string& what);

}  // namespace ebb::array
