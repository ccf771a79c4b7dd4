// See reduction.h.
#include "array/pass/reduction.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace ebb::array {
namespace {

std::uint64_t start_value(Reduce kind, Compute accumulator) {
  const bool is_f64 = accumulator == Compute::kF64, is_i64 = accumulator == Compute::kI64;
  switch (kind) {
    case Reduce::kProd: return is_f64 ? std::bit_cast<std::uint64_t>(1.0) : 1;
    case Reduce::kMin:
      return is_f64   ? std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity())
             : is_i64 ? static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                      : std::numeric_limits<std::uint64_t>::max();
    case Reduce::kMax:
      return is_f64   ? std::bit_cast<std::uint64_t>(-std::numeric_limits<double>::infinity())
             : is_i64 ? static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::min())
                      : 0;
    case Reduce::kAll: return 1;
    default: return 0;
  }
}

}  // namespace

ReduceOrder reduce_order(const Dims& sizes, const Dims& dims) {
  ReduceOrder plan;
  const int rank = static_cast<int>(sizes.size());
  const auto is_reduced = [&](int d) { return std::binary_search(dims.begin(), dims.end(), d); };
  int inner_from = rank;
  while (inner_from > 0 && !is_reduced(inner_from - 1)) --inner_from;
  const auto put = [&](int d, std::int64_t& product) {
    plan.order.push_back(d);
    plan.sizes.push_back(sizes[d]);
    product *= sizes[d];
  };
  for (int d = 0; d < inner_from; ++d) {
    if (!is_reduced(d)) put(d, plan.outer);
  }
  for (int d = 0; d < inner_from; ++d) {
    if (is_reduced(d)) put(d, plan.reduced);
  }
  for (int d = inner_from; d < rank; ++d) put(d, plan.inner);
  return plan;
}

Dims ReduceOrder::ordered(const Dims& strides) const {
  Dims result;
  for (const int d : order) result.push_back(strides[static_cast<std::size_t>(d)]);
  return result;
}

Accumulators::Accumulators(Reduce kind, DType dtype)
    : kind_(kind), type_(compute_of(dtype)), is_arg_(kind == Reduce::kArgMin || kind == Reduce::kArgMax) {
  if (is_arg_) arg_ = find_arg_fold(kind, type_);
  start_ = start_value(kind, type());
}

void Accumulators::clear(std::uint64_t* accumulators, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    accumulators[i * words()] = is_arg_ ? 0 : start_;
    if (is_arg_) accumulators[2 * i + 1] = kNoIndex;
  }
}

void Accumulators::merge(const std::uint64_t* other, std::size_t count, std::uint64_t* total) const {
  if (is_arg_) {
    for (std::size_t i = 0; i < count; ++i) arg_.merge(other + 2 * i, total + 2 * i);
    return;
  }
  find_column_reduce(kind_, type())(other, 1, count, total);
}

void Accumulators::store(const std::uint64_t* accumulators, std::size_t count, const Target& target,
                         std::int64_t first) const {
  const DType dtype = target.shape->dtype;
  const Compute to = compute_of(dtype);
  const Compute from = is_arg_ ? Compute::kI64 : type();
  alignas(64) std::uint64_t in[kTile] = {}, out[kTile] = {}, exact[kTile] = {};
  for (std::size_t at = 0; at < count; at += kTile) {
    const std::size_t n = std::min(kTile, count - at);
    for (std::size_t i = 0; i < n; ++i) in[i] = accumulators[(at + i) * words() + words() - 1];
    find_cast(from, to, is_float(dtype) && size_of(dtype) == 2)(in, nullptr, nullptr, out, padded(n));
    const Kernel wrap_kernel = find_wrap(dtype);
    if (wrap_kernel != nullptr) wrap_kernel(out, nullptr, nullptr, exact, padded(n));
    const std::int64_t offset = (first + static_cast<std::int64_t>(at)) * static_cast<std::int64_t>(size_of(dtype));
    find_store(dtype)(wrap_kernel != nullptr ? exact : out, target.data + offset, 1, n);
  }
}

}  // namespace ebb::array
