// Reductions of a tile. Floats are summed in f64, sixteen running sums at a time, in an order that depends on nothing
// but the number of values: the result is the same on every processor and for every number of threads.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/reduce_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/highway.h>

#include "array/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kStrands = 16;

template <typename A>
struct Wrapping {
  using Type = A;
};
template <>
struct Wrapping<std::int64_t> {
  using Type = std::uint64_t;
};

// clang-format off
struct Sum { template <class A> static A apply(A x, A y) { using W = typename Wrapping<A>::Type;
  return static_cast<A>(static_cast<W>(x) + static_cast<W>(y)); } };
struct Prod { template <class A> static A apply(A x, A y) { using W = typename Wrapping<A>::Type;
  return static_cast<A>(static_cast<W>(x) * static_cast<W>(y)); } };
// A NaN stays, from either side.
struct Max { template <class A> static A apply(A x, A y) { return y > x || y != y ? y : x; } };
struct Min { template <class A> static A apply(A x, A y) { return y < x || y != y ? y : x; } };
// clang-format on

template <typename T, typename A, typename F>
void row(const void* values, std::size_t n, void* accumulator) {
  const T* v = static_cast<const T*>(values);
  A& total = *static_cast<A*>(accumulator);
  std::size_t i = 0;
  if (n >= kStrands) {
    A strands[kStrands];
    for (std::size_t s = 0; s < kStrands; ++s) strands[s] = static_cast<A>(v[s]);
    for (i = kStrands; i + kStrands <= n; i += kStrands) {
      for (std::size_t s = 0; s < kStrands; ++s) strands[s] = F::apply(strands[s], static_cast<A>(v[i + s]));
    }
    for (std::size_t width = kStrands / 2; width > 0; width /= 2) {
      for (std::size_t s = 0; s < width; ++s) strands[s] = F::apply(strands[s], strands[s + width]);
    }
    total = F::apply(total, strands[0]);
  }
  for (; i < n; ++i) total = F::apply(total, static_cast<A>(v[i]));
}

template <typename T, typename A, typename F>
void column(const void* values, std::size_t rows, std::size_t columns, void* accumulators) {
  const T* v = static_cast<const T*>(values);
  A* total = static_cast<A*>(accumulators);
  for (std::size_t r = 0; r < rows; ++r, v += columns) {
    EBB_INDEPENDENT
    for (std::size_t c = 0; c < columns; ++c) total[c] = F::apply(total[c], static_cast<A>(v[c]));
  }
}

struct Pair {
  RowReduce row_kernel;
  ColumnReduce column_kernel;
};

template <typename T, typename A>
Pair find_pair(Reduce kind) {
  switch (kind) {
    case Reduce::kSum: return {row<T, A, Sum>, column<T, A, Sum>};
    case Reduce::kProd: return {row<T, A, Prod>, column<T, A, Prod>};
    case Reduce::kMin:
    case Reduce::kAll: return {row<T, A, Min>, column<T, A, Min>};
    case Reduce::kMax:
    case Reduce::kAny: return {row<T, A, Max>, column<T, A, Max>};
    default: return {};
  }
}

Pair find_reduce(Reduce kind, Compute type) {
  switch (type) {
    case Compute::kBool: return find_pair<std::uint8_t, std::uint64_t>(kind);
    case Compute::kI64: return find_pair<std::int64_t, std::int64_t>(kind);
    case Compute::kU64: return find_pair<std::uint64_t, std::uint64_t>(kind);
    case Compute::kF32: return find_pair<float, double>(kind);
    case Compute::kF64: return find_pair<double, double>(kind);
  }
  return {};
}

RowReduce find_row_here(Reduce kind, Compute type) { return find_reduce(kind, type).row_kernel; }
ColumnReduce find_column_here(Reduce kind, Compute type) { return find_reduce(kind, type).column_kernel; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_row_here);
HWY_EXPORT(find_column_here);

RowReduce find_row_reduce(Reduce kind, Compute type) { return HWY_DYNAMIC_DISPATCH(find_row_here)(kind, type); }
ColumnReduce find_column_reduce(Reduce kind, Compute type) {
  return HWY_DYNAMIC_DISPATCH(find_column_here)(kind, type);
}

}  // namespace ebb::array
#endif
