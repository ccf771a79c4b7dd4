// argmin and argmax over the five compute types.
#include "array/kernels/arg_reduce.h"

#include <cstring>
#include <utility>

namespace ebb::array {
namespace {

template <typename T>
T value_of(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

template <typename T>
std::uint64_t word_of(T value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}

template <typename T, bool kMaximum>
bool beats(T challenger, T holder) {
  if (challenger != challenger) return holder == holder;
  return kMaximum ? challenger > holder : challenger < holder;
}

template <typename T, bool kMaximum>
void offer(T value, std::uint64_t index, std::uint64_t* pair) {
  if (pair[1] == kNoIndex || beats<T, kMaximum>(value, value_of<T>(pair[0]))) {
    pair[0] = word_of(value);
    pair[1] = index;
  }
}

template <typename T, bool kMaximum>
void fold(const void* values, std::size_t rows, std::size_t columns, std::int64_t first, std::uint64_t* pairs,
          bool along) {
  const T* v = static_cast<const T*>(values);
  const auto index = static_cast<std::uint64_t>(first);
  if (!along) {
    for (std::size_t r = 0; r < rows; ++r, v += columns) {
      for (std::size_t c = 0; c < columns; ++c) offer<T, kMaximum>(v[c], index + r, pairs + 2 * c);
    }
    return;
  }
  for (std::size_t i = 0; i < rows * columns; ++i) offer<T, kMaximum>(v[i], index + i, pairs);
}

// In the order of their indices, whichever comes first: of equals the first wins.
template <typename T, bool kMaximum>
void merge(const std::uint64_t* other, std::uint64_t* pair) {
  std::uint64_t value = other[0], index = other[1];
  if (index == kNoIndex) return;
  if (index < pair[1]) {
    std::swap(value, pair[0]);
    std::swap(index, pair[1]);
  }
  if (index != kNoIndex) offer<T, kMaximum>(value_of<T>(value), index, pair);
}

template <bool kMaximum>
ArgFold find(Compute type) {
  switch (type) {
    case Compute::kBool: return {fold<std::uint8_t, kMaximum>, merge<std::uint8_t, kMaximum>};
    case Compute::kI64: return {fold<std::int64_t, kMaximum>, merge<std::int64_t, kMaximum>};
    case Compute::kU64: return {fold<std::uint64_t, kMaximum>, merge<std::uint64_t, kMaximum>};
    case Compute::kF32: return {fold<float, kMaximum>, merge<float, kMaximum>};
    case Compute::kF64: return {fold<double, kMaximum>, merge<double, kMaximum>};
  }
  return {};
}

}  // namespace

ArgFold find_arg_fold(Reduce kind, Compute type) {
  return kind == Reduce::kArgMax ? find<true>(type) : find<false>(type);
}

}  // namespace ebb::array
