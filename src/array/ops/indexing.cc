// Gathering, scattering and joining: whole runs of bytes are moved, whatever the type.
#include <algorithm>
#include <cstring>

#include "array/ops/operands.h"
#include "array/shape/tad.h"

namespace ebb {
namespace {

using array::invalid;

// An array in C order as [outer, length, inner] around one dimension; inner in bytes.
struct Split {
  std::int64_t outer = 1, length = 1, inner_bytes = 1;
};

Split split(const Array& a, int dim) {
  Split result;
  for (int d = 0; d < a.rank(); ++d) {
    (d < dim ? result.outer : d == dim ? result.length : result.inner_bytes) *= a.shape()[d];
  }
  result.inner_bytes *= static_cast<std::int64_t>(size_of(a.dtype()));
  return result;
}

std::byte* memory(const Array& a) { return const_cast<std::byte*>(a.node()->data()); }

std::int64_t* integers(const Array& a) { return reinterpret_cast<std::int64_t*>(memory(a)); }

// Positions in a dimension of `length`, checked, as i64 in C order; negative ones from the end.
Array positions(const char* who, const Array& indices, std::int64_t length) {
  if (!is_integer(indices.dtype())) invalid(who, std::string("indices must be integers, not ") + name(indices.dtype()));
  const Array result = indices.astype(DType::kI64).contiguous().evaluate();
  if (result.size() == 0) return result;
  const std::int64_t low = min(result).item_int(), high = max(result).item_int();
  for (const std::int64_t index : {low, high}) {
    if (index < -length || index >= length) {
      invalid(who, "index " + std::to_string(index) + " of a dimension of size " + std::to_string(length));
    }
  }
  return low >= 0 ? result : where(result < scalar_int(0), result + scalar_int(length), result).evaluate();
}

Array take_here(const Array& a, const Array& indices, int dim) {
  const int d = array::checked_dim("take", dim, a.rank());
  if (indices.rank() != 1) invalid("take", "indices must have one dimension, not " + std::to_string(indices.rank()));
  const Array at = positions("take", indices, a.size(d));
  const std::int64_t* const chosen = integers(at);
  const std::int64_t count = at.size();
  const Array source = a.contiguous().evaluate();
  Dims sizes = a.shape();
  sizes[d] = count;
  Array result = empty(sizes, a.dtype());
  const Split from = split(source, d);
  const auto bytes = static_cast<std::size_t>(from.inner_bytes);
  if (result.size() == 0) return result;
  for (std::int64_t o = 0; o < from.outer; ++o) {
    const std::byte* const in = memory(source) + o * from.length * from.inner_bytes;
    std::byte* const out = memory(result) + o * count * from.inner_bytes;
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * from.inner_bytes, in + chosen[i] * from.inner_bytes, bytes);
    }
  }
  return result;
}

Array take_along_here(const Array& a, const Array& indices, int dim) {
  const int d = array::checked_dim("take_along_axis", dim, a.rank());
  if (indices.rank() != a.rank()) invalid("take_along_axis", "indices must have as many dimensions as the array");
  Dims sizes = array::broadcast_shapes(
      "take_along_axis",
      [&] {
        Dims without = a.shape();
        without[d] = 1;
        return without;
      }(),
      indices.shape());
  Dims source_sizes = sizes;
  source_sizes[d] = a.size(d);
  // The dimension last, so that each line is one run.
  Dims order;
  for (int k = 0; k < a.rank(); ++k) {
    if (k != d) order.push_back(k);
  }
  order.push_back(d);
  sizes[d] = indices.size(d);
  const Array source = a.broadcast_to(source_sizes).permute(order).contiguous();
  const Array where_from = positions("take_along_axis", indices.broadcast_to(sizes).permute(order), a.size(d));
  const std::int64_t* const chosen = integers(where_from);
  Array result = empty(where_from.shape(), a.dtype());
  const auto element = static_cast<std::int64_t>(size_of(a.dtype()));
  const std::int64_t line = a.size(d), count = sizes[d];
  for (std::int64_t i = 0; i < result.size(); ++i) {
    std::memcpy(memory(result) + i * element, memory(source) + (i / count * line + chosen[i]) * element,
                static_cast<std::size_t>(element));
  }
  Dims back(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) back[order[k]] = static_cast<std::int64_t>(k);
  return result.permute(back);
}

Array scatter_here(const Array& a, const Array& indices, const Array& updates, int dim, bool add) {
  const int d = array::checked_dim("scatter", dim, a.rank());
  if (indices.rank() != 1) invalid("scatter", "indices must have one dimension");
  const Array at = positions("scatter", indices, a.size(d));
  const std::int64_t* const chosen = integers(at);
  const std::int64_t count = at.size();
  Dims sizes = a.shape();
  sizes[d] = count;
  const Array values = updates.astype(a.dtype()).broadcast_to(sizes);
  Array result = a.copy();
  if (!add) {
    const Array rows = values.contiguous();
    const Split to = split(result, d);
    for (std::int64_t o = 0; o < to.outer; ++o) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(memory(result) + (o * to.length + chosen[i]) * to.inner_bytes,
                    memory(rows) + (o * count + i) * to.inner_bytes, static_cast<std::size_t>(to.inner_bytes));
      }
    }
    return result;
  }
  for (std::int64_t i = 0; i < count; ++i) {  // in their order: an index may come twice
    Array row = result.select(d, chosen[i]);
    row.assign(row + values.select(d, i));
  }
  return result;
}

}  // namespace

Array take(const Array& a, const Array& indices, int dim) {
  return array::run_on_host([=](const Array& x, const Array& at) { return take_here(x, at, dim); }, a, indices);
}

Array take_along(const Array& a, const Array& indices, int dim) {
  return array::run_on_host([=](const Array& x, const Array& at) { return take_along_here(x, at, dim); }, a, indices);
}

Array scatter(const Array& a, const Array& indices, const Array& updates, int dim, bool add) {
  return array::run_on_host(
      [=](const Array& x, const Array& at, const Array& values) { return scatter_here(x, at, values, dim, add); }, a,
      indices, updates);
}

Array concatenate(const std::vector<Array>& arrays, int dim) {
  if (arrays.empty()) invalid("concatenate", "needs at least one array");
  const int d = array::checked_dim("concatenate", dim, arrays[0].rank());
  Dims sizes = arrays[0].shape();
  DType dtype = arrays[0].dtype();
  sizes[d] = 0;
  for (const Array& a : arrays) {
    Dims same = a.shape();
    if (a.rank() == arrays[0].rank()) same[d] = sizes[d];
    if (same != sizes) {
      invalid("concatenate", "shapes " + array::to_text(arrays[0].shape()) + " and " + array::to_text(a.shape()) +
                                 " differ beside dimension " + std::to_string(d));
    }
    sizes[d] += a.size(d);
    dtype = promote(dtype, a.dtype());
  }
  Array result = empty(sizes, dtype);
  std::int64_t at = 0;
  for (const Array& a : arrays) {
    Array part = result.slice(d, {at, at + a.size(d), 1});
    if (part.size() > 0) part.assign(a);
    at += a.size(d);
  }
  return result;
}

Array stack(const std::vector<Array>& arrays, int dim) {
  if (arrays.empty()) invalid("stack", "needs at least one array");
  const int d = array::checked_dim("stack", dim, arrays[0].rank() + 1);
  std::vector<Array> expanded;
  for (const Array& a : arrays) {
    if (a.shape() != arrays[0].shape()) {
      invalid("stack", "shapes " + array::to_text(arrays[0].shape()) + " and " + array::to_text(a.shape()) + " differ");
    }
    expanded.push_back(a.expand_dims(d));
  }
  return concatenate(expanded, d);
}

namespace {

// Where an array is true: a row for each of its dimensions.
Array true_positions(const Array& a) {
  const Array flags = a.astype(DType::kBool).contiguous().evaluate();
  const std::int64_t count = sum(flags).item_int();
  const Array result = empty({a.rank(), count}, DType::kI64);
  std::int64_t* found = integers(result);
  for (std::int64_t i = 0; i < flags.size(); ++i) {
    if (memory(flags)[i] == std::byte{0}) continue;
    std::int64_t rest = i;
    for (int d = a.rank() - 1; d >= 0; --d) {
      found[d * count] = rest % a.shape()[d];
      rest /= a.shape()[d];
    }
    ++found;
  }
  return result;
}

// `count`, and the dimensions that `a` has beyond those of the mask.
Dims masked_sizes(const char* who, const Array& a, const Array& mask, std::int64_t count) {
  if (mask.dtype() != DType::kBool) invalid(who, std::string("the mask must be bool, not ") + name(mask.dtype()));
  if (mask.rank() > a.rank() || !std::equal(mask.shape().begin(), mask.shape().end(), a.shape().begin())) {
    invalid(who, "mask " + array::to_text(mask.shape()) + " does not fit " + array::to_text(a.shape()));
  }
  Dims sizes{count};
  sizes.insert(sizes.end(), a.shape().begin() + mask.rank(), a.shape().end());
  return sizes;
}

// Writes the rows of `values` where `flags`, in C order, is true. All on the host, and in memory of their own.
void write_masked(const Array& target, const Array& flags, const Array& values) {
  Dims row_of_target, row_of_values;
  for (int d = flags.rank(); d < target.rank(); ++d) row_of_target.push_back(d);
  for (int d = 1; d < values.rank(); ++d) row_of_values.push_back(d);
  const auto to = array::tad_layout(target.node()->shape, row_of_target);
  const auto from = array::tad_layout(values.node()->shape, row_of_values);
  const array::ShapeInfo &row = *to->tensor, &given = *from->tensor;
  const auto element = static_cast<std::int64_t>(size_of(target.dtype()));
  const std::int64_t each = row.contiguous && given.contiguous ? row.count : 1;  // that lie side by side in both
  for (std::int64_t i = 0, k = 0; i < flags.size(); ++i) {
    if (memory(flags)[i] == std::byte{0}) continue;
    std::byte* const out = memory(target) + to->offset(i) * element;
    const std::byte* const in = memory(values) + from->offset(k++) * element;
    for (std::int64_t j = 0; j < row.count; j += each) {
      std::memcpy(out + array::offset_of(j, row.sizes, row.strides) * element,
                  in + array::offset_of(j, given.sizes, given.strides) * element,
                  static_cast<std::size_t>(each * element));
    }
  }
}

}  // namespace

std::vector<Array> nonzero(const Array& a) {
  if (a.rank() == 0) invalid("nonzero", "a 0-d array has no dimensions");
  const Array found = array::run_on_host(true_positions, a);
  std::vector<Array> result;
  for (int d = 0; d < a.rank(); ++d) result.push_back(found.select(0, d));
  return result;
}

Array masked_select(const Array& a, const Array& mask) {
  const Dims sizes = masked_sizes("masked_select", a, mask, mask.size());
  return take(a.reshape(sizes), nonzero(mask.reshape({mask.size()}))[0], 0);
}

void masked_assign(Array& a, const Array& mask, const Array& values) {
  const Dims sizes = masked_sizes("masked_assign", a, mask, sum(mask.evaluate()).item_int());
  const Array given = array::source_for("masked_assign", a, values.astype(a.dtype()).broadcast_to(sizes));
  const Array flags = array::to_host(array::source_for("masked_assign", a, mask).contiguous());
  const Array rows = array::to_host(given), target = array::to_host(a);
  {
    const std::lock_guard lock(array::evaluation_mutex());
    write_masked(target, flags, rows);
  }
  if (target.node() != a.node()) a.assign(target);  // which lies on a GPU
}

}  // namespace ebb
