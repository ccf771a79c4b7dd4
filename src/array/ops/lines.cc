// What goes along one dimension element by element: cumulative operators, sorting, searching. Each line is a tensor
// along that dimension (array/tad.h).
#include <algorithm>
#include <numeric>

#include "array/cuda/placement.h"
#include "array/executor.h"
#include "array/kernels/kernel.h"
#include "array/node.h"
#include "array/tad.h"

namespace ebb {
namespace {

using array::Compute;
using array::invalid;

DType widest(DType dtype) {
  return is_float(dtype) ? DType::kF64 : is_signed_integer(dtype) ? DType::kI64 : DType::kU64;
}

// Calls line(first element of in, of out, stride of in, stride of out, length) for every line of dimension `d`.
template <typename In, typename Out, typename Line>
void for_lines(const Array& in, const Array& out, int d, const Line& line) {
  const auto from = array::tad_layout(in.node()->shape, {d});
  const auto to = array::tad_layout(out.node()->shape, {d});
  const In* const source = static_cast<const In*>(in.data());
  Out* const target = static_cast<Out*>(const_cast<void*>(out.data()));
  const std::int64_t length = in.size(d);
  if (length == 0) return;
  const std::int64_t per_task = std::max<std::int64_t>(1, 32768 / length);
  array::run_tasks((from->count + per_task - 1) / per_task, [&](std::int64_t task) {
    const std::int64_t end = std::min(from->count, (task + 1) * per_task);
    for (std::int64_t i = task * per_task; i < end; ++i) {
      line(source + from->offset(i), target + to->offset(i), from->tensor->strides[0], to->tensor->strides[0], length);
    }
  });
}

template <typename T>
T step(Reduce kind, T total, T value) {
  using Bits = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;  // integers wrap
  switch (kind) {
    case Reduce::kSum: return static_cast<T>(static_cast<Bits>(total) + static_cast<Bits>(value));
    case Reduce::kProd: return static_cast<T>(static_cast<Bits>(total) * static_cast<Bits>(value));
    case Reduce::kMin: return value < total || value != value ? value : total;
    default: return value > total || value != value ? value : total;
  }
}

template <typename T>
Array accumulate_here(Reduce kind, const Array& a, int d) {
  const Array in = a.astype(dtype_of<T>()).evaluate();
  const Array out = empty(a.shape(), dtype_of<T>());
  for_lines<T, T>(in, out, d, [&](const T* from, T* to, std::int64_t s, std::int64_t t, std::int64_t length) {
    T total = from[0];
    to[0] = total;
    for (std::int64_t i = 1; i < length; ++i) {
      total = step(kind, total, from[i * s]);
      to[i * t] = total;
    }
  });
  return out;
}

template <typename T>
Array accumulate(Reduce kind, const Array& a, int d) {
  return array::run_on_host([=](const Array& here) { return accumulate_here<T>(kind, here, d); }, a);
}

// NaN after everything, as NumPy has it; also when descending.
template <typename T>
bool precedes(T a, T b, bool descending) {
  if (a != a) return false;
  if (b != b) return true;
  return descending ? b < a : a < b;
}

template <typename T>
Array order_here(const Array& a, int d, bool descending) {
  const Array in = a.astype(dtype_of<T>()).evaluate();
  const Array out = empty(a.shape(), DType::kI64);
  using I = std::int64_t;
  for_lines<T, I>(in, out, d, [&](const T* from, I* to, I s, I t, I length) {
    std::vector<I> order(static_cast<std::size_t>(length));
    std::iota(order.begin(), order.end(), I{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](I x, I y) { return precedes(from[x * s], from[y * s], descending); });
    for (I i = 0; i < length; ++i) to[i * t] = order[static_cast<std::size_t>(i)];
  });
  return out;
}

template <typename T>
Array order_of(const Array& a, int d, bool descending) {
  return array::run_on_host([=](const Array& here) { return order_here<T>(here, d, descending); }, a);
}

template <typename T>
Array places(const Array& sorted, const Array& values, bool right) {
  const auto list = sorted.to_vector<T>();
  const auto wanted = values.to_vector<T>();
  std::vector<std::int64_t> result;
  result.reserve(wanted.size());
  const auto less = [](T a, T b) { return precedes(a, b, false); };
  for (const T value : wanted) {
    const auto found = right ? std::upper_bound(list.begin(), list.end(), value, less)
                             : std::lower_bound(list.begin(), list.end(), value, less);
    result.push_back(found - list.begin());
  }
  return from_memory(result.data(), values.shape(), DType::kI64);
}

}  // namespace

Array cumulative(Reduce kind, const Array& a, int dim) {
  const int d = array::checked_dim("cumulative", dim, a.rank());
  if (kind > Reduce::kMax) invalid("cumulative", "only of sum, prod, min and max");
  const bool widens = (kind == Reduce::kSum || kind == Reduce::kProd) && !is_float(a.dtype());
  const DType result = widens ? (is_unsigned_integer(a.dtype()) ? DType::kU64 : DType::kI64) : a.dtype();
  switch (widest(a.dtype() == DType::kBool ? DType::kI64 : a.dtype())) {
    case DType::kF64: return accumulate<double>(kind, a, d).astype(result);
    case DType::kI64: return accumulate<std::int64_t>(kind, a, d).astype(result);
    default: return accumulate<std::uint64_t>(kind, a, d).astype(result);
  }
}

Array argsort(const Array& a, int dim, bool descending) {
  const int d = array::checked_dim("argsort", dim, a.rank());
  switch (widest(a.dtype())) {
    case DType::kF64: return order_of<double>(a, d, descending);
    case DType::kI64: return order_of<std::int64_t>(a, d, descending);
    default: return order_of<std::uint64_t>(a, d, descending);
  }
}

Array sort(const Array& a, int dim, bool descending) {
  array::checked_dim("sort", dim, a.rank());
  return take_along(a, argsort(a, dim, descending), dim);
}

Array searchsorted(const Array& sorted, const Array& values, bool right) {
  if (sorted.rank() != 1) invalid("searchsorted", "the sorted array must have one dimension");
  switch (widest(promote(sorted.dtype(), values.dtype()))) {
    case DType::kF64: return places<double>(sorted, values, right);
    case DType::kI64: return places<std::int64_t>(sorted, values, right);
    default: return places<std::uint64_t>(sorted, values, right);
  }
}

}  // namespace ebb
