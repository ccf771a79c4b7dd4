// Shared by the tests of arrays: random shapes and contents, and elements of any view in C order, read by strides
// alone.
//
// Used by one thread. Every test prints its seed when it fails, through SCOPED_TRACE.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "array/ops/operands.h"
#include "base/rng.h"
#include "ebb/array.h"

namespace ebb::array_test {

inline std::int64_t count_of(const Dims& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

inline Dims random_shape(Rng& rng, int rank_max, std::int64_t size_max) {
  Dims shape(rng.below(static_cast<std::uint64_t>(rank_max) + 1));
  for (auto& size : shape) size = static_cast<std::int64_t>(rng.between(1, static_cast<std::uint64_t>(size_max)));
  return shape;
}

inline double random_value(Rng& rng) { return (static_cast<double>(rng.below(20001)) - 10000.0) / 1000.0; }

// Contiguous values of any type; integers in [-9, 9], or [0, 9] if unsigned.
inline Array random_array(Rng& rng, const Dims& shape, DType dtype = DType::kF64) {
  std::vector<double> values(static_cast<std::size_t>(count_of(shape)));
  for (double& value : values) {
    value = random_value(rng);
    if (is_unsigned_integer(dtype)) value = std::floor(std::abs(value));
    if (is_integer(dtype)) value = std::trunc(value);
    if (dtype == DType::kBool) value = value > 0;
  }
  return from_memory(values.data(), shape, DType::kF64).astype(dtype).evaluate();
}

// A view with the wanted shape that is often not contiguous: cut out of something larger, turned round, transposed.
inline Array random_view(Rng& rng, const Dims& shape, DType dtype = DType::kF64) {
  Dims larger = shape;
  std::vector<std::int64_t> steps(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    steps[d] = rng.chance(1, 2) ? 1 : static_cast<std::int64_t>(rng.between(1, 3));
    larger[d] = shape[d] * steps[d] + static_cast<std::int64_t>(rng.below(2));
  }
  const bool swap = shape.size() >= 2 && rng.chance(1, 3);
  if (swap) std::swap(larger[shape.size() - 1], larger[shape.size() - 2]);
  Array view = random_array(rng, larger, dtype);
  if (swap) view = view.transpose();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    view = view.slice(static_cast<int>(d), {{}, shape[d] * steps[d], steps[d]});
    if (rng.chance(1, 4)) view = view.flip({static_cast<int>(d)});
  }
  return view;
}

// Where the element with this number in C order of `shape` lies in an array that broadcasts to it.
inline std::int64_t offset_of(const Array& a, const Dims& shape, std::int64_t number) {
  std::int64_t offset = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t index = number % shape[d];
    number /= shape[d];
    const std::size_t missing = shape.size() - a.shape().size();
    if (d >= missing && a.shape()[d - missing] != 1) offset += index * a.strides()[d - missing];
  }
  return offset;
}

// Evaluated, and readable from here: of an array on a GPU a copy, strides and all.
inline Array here(const Array& a) { return array::to_host(a); }

template <typename T>
T element(const Array& a, const Dims& shape, std::int64_t number) {
  return a.data_as<T>()[offset_of(a, shape, number)];
}

inline bool same_bits(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Array x = here(a.contiguous()), y = here(b.contiguous());
  return x.size() == 0 || std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * size_of(x.dtype())) == 0;
}

// Restores what a test changed.
struct KeepLimits {
  CombineLimits before = combine_limits();
  ~KeepLimits() {
    set_combine_limits(before);
    set_array_threads(0);
  }
};

}  // namespace ebb::array_test
