// The folding of argmin and argmax: accumulators are pairs of a value's bits and its index. The first of equals wins,
// and the first NaN wins over everything, as in NumPy. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "array/kernels/kernel.h"

namespace ebb::array {

inline constexpr std::uint64_t kNoIndex = ~std::uint64_t{0};

struct ArgFold {
  // rows × columns values whose first row has the index `first`. `along`: all into one pair, indices run along columns;
  // else into a pair for each column, indices run along rows.
  void (*fold)(const void* values, std::size_t rows, std::size_t columns, std::int64_t first, std::uint64_t* pairs,
               bool along);
  void (*merge)(const std::uint64_t* other, std::uint64_t* pair);
};
ArgFold find_arg_fold(Reduce kind, Compute type);

}  // namespace ebb::array
