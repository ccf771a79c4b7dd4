// What goes along one dimension element by element: cumulative operators, sorting, searching. Each line is a tensor
// along that dimension (array/tad.h).
#include <algorithm>
#include <cstring>

#include "array/kernels/kernel.h"
#include "array/ops/operands.h"
#include "array/pass/executor.h"
#include "array/shape/tad.h"

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

// An element that is sorted by its key, and what comes along: its number, or its bytes.
template <typename T>
struct Keyed {
  T key;
  std::uint64_t load;
};

// Elements that are sorted at once, in the cache. A longer line is merged from such runs: each merge goes through its
// memory from one end to the other, so that may be larger than the budget.
constexpr std::int64_t kRun = 1 << 16;

// Sorts what fill(begin, end) writes to these parts of `line`, with the help of `spare`; tells in which it is then.
template <typename T, typename Fill>
const Keyed<T>* sort_line(Keyed<T>* line, Keyed<T>* spare, std::int64_t length, bool descending, const Fill& fill) {
  const auto less = [descending](const Keyed<T>& x, const Keyed<T>& y) { return precedes(x.key, y.key, descending); };
  array::run_tasks((length + kRun - 1) / kRun, [&](std::int64_t task) {
    const std::int64_t begin = task * kRun, end = std::min(length, begin + kRun);
    fill(begin, end);
    std::stable_sort(line + begin, line + end, less);
  });
  for (std::int64_t run = kRun; run < length; run *= 2, std::swap(line, spare)) {
    array::run_tasks((length + 2 * run - 1) / (2 * run), [&](std::int64_t task) {
      const std::int64_t begin = task * 2 * run, middle = std::min(length, begin + run);
      const std::int64_t end = std::min(length, middle + run);
      std::merge(line + begin, line + middle, line + middle, line + end, spare + begin, less);
    });
  }
  return line;
}

// The elements of each line in their order, or their numbers.
template <typename T>
Array order_here(const Array& a, int d, bool descending, bool numbers) {
  const Array in = a.astype(dtype_of<T>()).evaluate();
  const Array out = empty(a.shape(), numbers ? DType::kI64 : a.dtype());
  const Array source = numbers ? in : a.evaluate();
  const auto keys = array::tad_layout(in.node()->shape, {d}), from = array::tad_layout(source.node()->shape, {d});
  const auto to = array::tad_layout(out.node()->shape, {d});
  const std::int64_t length = a.size(d);
  const std::size_t bytes = size_of(out.dtype());
  const auto element = static_cast<std::int64_t>(bytes);
  const auto sort_one = [&](std::int64_t i, Keyed<T>* line, Keyed<T>* spare) {
    const T* const key = static_cast<const T*>(in.data()) + keys->offset(i);
    const auto* const value = static_cast<const std::byte*>(source.data()) + from->offset(i) * element;
    auto* const target = static_cast<std::byte*>(const_cast<void*>(out.data())) + to->offset(i) * element;
    const auto* sorted = sort_line(line, spare, length, descending, [&](std::int64_t k, std::int64_t end) {
      for (; k < end; ++k) {
        line[k] = {key[k * keys->tensor->strides[0]], static_cast<std::uint64_t>(k)};
        if (!numbers) std::memcpy(&line[k].load, value + k * from->tensor->strides[0] * element, bytes);
      }
    });
    for (std::int64_t k = 0; k < length; ++k) {
      std::memcpy(target + k * to->tensor->strides[0] * element, &sorted[k].load, bytes);
    }
  };
  if (length > kRun) {
    static_assert(sizeof(Keyed<T>) == 16);
    const Array line = empty({2 * length}, DType::kI64), spare = empty({2 * length}, DType::kI64);
    const auto memory = [](const Array& x) { return static_cast<Keyed<T>*>(const_cast<void*>(x.data())); };
    for (std::int64_t i = 0; i < to->count; ++i) sort_one(i, memory(line), memory(spare));
  } else if (length > 0) {
    const std::int64_t per_task = std::max<std::int64_t>(1, kRun / 2 / length);
    array::run_tasks((to->count + per_task - 1) / per_task, [&](std::int64_t task) {
      std::vector<Keyed<T>> line(static_cast<std::size_t>(length));
      const std::int64_t end = std::min(to->count, (task + 1) * per_task);
      for (std::int64_t i = task * per_task; i < end; ++i) sort_one(i, line.data(), nullptr);
    });
  }
  return out;
}

Array order_of(const char* who, const Array& a, int dim, bool descending, bool numbers) {
  const int d = array::checked_dim(who, dim, a.rank());
  const auto body = [=](const Array& here) {
    switch (widest(a.dtype())) {
      case DType::kF64: return order_here<double>(here, d, descending, numbers);
      case DType::kI64: return order_here<std::int64_t>(here, d, descending, numbers);
      default: return order_here<std::uint64_t>(here, d, descending, numbers);
    }
  };
  return array::run_on_host(body, a);
}

template <typename T>
Array places_here(const Array& sorted, const Array& values, bool right) {
  const Array list = sorted.astype(dtype_of<T>()).contiguous().evaluate();
  const Array wanted = values.astype(dtype_of<T>()).contiguous().evaluate();
  const Array result = empty(values.shape(), DType::kI64);
  const T* const first = static_cast<const T*>(list.data());
  const T* const end = first + list.size();
  const T* const value = static_cast<const T*>(wanted.data());
  auto* const place = static_cast<std::int64_t*>(const_cast<void*>(result.data()));
  const auto less = [](T x, T y) { return precedes(x, y, false); };
  array::run_tasks((wanted.size() + kRun - 1) / kRun, [&](std::int64_t task) {
    std::vector<Keyed<T>> order;
    for (std::int64_t i = task * kRun; i < std::min(wanted.size(), (task + 1) * kRun); ++i) {
      order.push_back({value[i], static_cast<std::uint64_t>(i)});
    }
    // A list beyond the cache is gone through in order, once for all values of a task: it may be larger than memory.
    if (list.size() > 16 * kRun) {
      std::sort(order.begin(), order.end(), [&](const auto& x, const auto& y) { return less(x.key, y.key); });
    }
    for (const auto& [key, i] : order) {
      place[i] = (right ? std::upper_bound(first, end, key, less) : std::lower_bound(first, end, key, less)) - first;
    }
  });
  return result;
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

Array argsort(const Array& a, int dim, bool descending) { return order_of("argsort", a, dim, descending, true); }

Array sort(const Array& a, int dim, bool descending) { return order_of("sort", a, dim, descending, false); }

Array searchsorted(const Array& sorted, const Array& values, bool right) {
  if (sorted.rank() != 1) invalid("searchsorted", "the sorted array must have one dimension");
  const DType type = widest(promote(sorted.dtype(), values.dtype()));
  const auto body = [=](const Array& list, const Array& wanted) {
    switch (type) {
      case DType::kF64: return places_here<double>(list, wanted, right);
      case DType::kI64: return places_here<std::int64_t>(list, wanted, right);
      default: return places_here<std::uint64_t>(list, wanted, right);
    }
  };
  return array::run_on_host(body, sorted, values);
}

}  // namespace ebb
