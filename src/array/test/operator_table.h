// Shared by the tests of generated kernels: which types an operator takes, many operators in one expression, which of
// them give the same bits everywhere, and how far the others may be off.
//
// Used by one thread.
#pragma once

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "array/test/reference.h"
#include "base/rng.h"
#include "ebb/array.h"

namespace ebb::array_test {

// Whether the standard has the operator for the type.
inline bool takes(Op op, DType dtype) {
  try {
    const Array one = full({1}, 1.0, dtype);
    const bool is_unary = op <= Op::kBitwiseNot;
    return (is_unary ? unary(op, one) : binary(op, one, one)).node()->inputs.front()->dtype() == dtype;
  } catch (const Error&) {
    return false;
  }
}

// One expression that applies the i-th operator to the elements whose selector is i.
inline Array all_of(const std::vector<Array>& results, const Array& selector, DType dtype) {
  Array all = results.front().astype(dtype);
  for (std::size_t k = 1; k < results.size(); ++k) {
    all = where(equal(selector, scalar_int(static_cast<std::int64_t>(k))), results[k].astype(dtype), all);
  }
  return all;
}

inline constexpr Op kExactUnary[] = {Op::kNegative, Op::kAbs,        Op::kSign,       Op::kSquare,
                                     Op::kSqrt,     Op::kReciprocal, Op::kFloor,      Op::kCeil,
                                     Op::kTrunc,    Op::kRound,      Op::kIsNan,      Op::kIsInf,
                                     Op::kIsFinite, Op::kSignBit,    Op::kLogicalNot, Op::kBitwiseNot};
inline constexpr Op kExactBinary[] = {
    Op::kAdd,        Op::kSubtract,  Op::kMultiply,    Op::kDivide,    Op::kFloorDivide, Op::kRemainder,
    Op::kMaximum,    Op::kMinimum,   Op::kCopySign,    Op::kNextAfter, Op::kBitwiseAnd,  Op::kBitwiseOr,
    Op::kBitwiseXor, Op::kShiftLeft, Op::kShiftRight,  Op::kEqual,     Op::kNotEqual,    Op::kLess,
    Op::kLessEqual,  Op::kGreater,   Op::kGreaterEqual};

// Random values with what is special among them.
inline Array values(Rng& rng, std::int64_t count, DType dtype) {
  std::vector<double> list(static_cast<std::size_t>(count));
  const double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40, INFINITY, -INFINITY, NAN, 3e38, 64.0, 7.0};
  for (double& value : list) {
    value = rng.chance(1, 2) ? special[rng.below(std::size(special))] : random_value(rng) * 7;
    if (is_integer(dtype)) value = std::isfinite(value) ? std::trunc(value) : -9.0;
  }
  return from_memory(list.data(), {count}, DType::kF64).astype(dtype).evaluate();
}

inline bool same_value(const std::byte* a, const std::byte* b, DType dtype) {
  if (std::memcmp(a, b, size_of(dtype)) == 0) return true;
  if (dtype == DType::kF64) {
    double x, y;
    std::memcpy(&x, a, 8), std::memcpy(&y, b, 8);
    return x != x && y != y;
  }
  if (dtype == DType::kF32) {
    float x, y;
    std::memcpy(&x, a, 4), std::memcpy(&y, b, 4);
    return x != x && y != y;
  }
  if (!is_float(dtype)) return false;
  std::uint16_t x, y;
  std::memcpy(&x, a, 2), std::memcpy(&y, b, 2);
  const std::uint16_t infinity = dtype == DType::kF16 ? 0x7C00 : 0x7F80;
  return (x & 0x7FFF) > infinity && (y & 0x7FFF) > infinity;
}

// All operators that give the same bits everywhere, for which `wanted`, each on its part of the elements.
struct ExactOperators {
  Array all;
  std::vector<Op> ops;  // element i is by ops[i % size]
};
template <typename Wanted>
ExactOperators exact_operators(DType dtype, const Wanted& wanted) {
  ExactOperators test;
  Rng rng(static_cast<std::uint64_t>(dtype) + 1);
  std::vector<Op> candidates(std::begin(kExactUnary), std::end(kExactUnary));
  candidates.insert(candidates.end(), std::begin(kExactBinary), std::end(kExactBinary));
  if (is_integer(dtype)) candidates.push_back(Op::kPow);
  for (Op op : candidates) {
    if (takes(op, dtype) && wanted(op)) test.ops.push_back(op);
  }
  const auto count = static_cast<std::int64_t>(test.ops.size());
  const Array x = values(rng, count * 200, dtype), y = values(rng, count * 200, dtype);
  std::vector<Array> results;
  for (Op op : test.ops) results.push_back(op <= Op::kBitwiseNot ? unary(op, x) : binary(op, x, y));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count) * 200);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) % count;
  test.all = all_of(results, from_vector(numbers, {count * 200}), dtype);
  return test;
}

// Functions of a device's library may err by what OpenCL 1.2 allows (section 7.4), which holds for CUDA's too (CUDA C++
// Programming Guide, mathematical functions); ours by 4 units in the last place.
struct Bound {
  Op op;
  double low, high, ulps;
};
inline constexpr Bound kBounds[] = {
    {Op::kExp, -20, 20, 3},      {Op::kExp2, -20, 20, 3},    {Op::kExpm1, -3, 3, 3},     {Op::kLog, 0.01, 100, 3},
    {Op::kLog2, 0.01, 100, 3},   {Op::kLog10, 0.01, 100, 3}, {Op::kLog1p, -0.5, 100, 2}, {Op::kSin, -10, 10, 4},
    {Op::kCos, -10, 10, 4},      {Op::kTan, -1.5, 1.5, 5},   {Op::kAsin, -1, 1, 4},      {Op::kAcos, -1, 1, 4},
    {Op::kAtan, -10, 10, 5},     {Op::kSinh, -5, 5, 4},      {Op::kCosh, -5, 5, 4},      {Op::kTanh, -5, 5, 5},
    {Op::kAsinh, -10, 10, 4},    {Op::kAcosh, 1, 10, 4},     {Op::kAtanh, -0.9, 0.9, 5}, {Op::kErf, -3, 3, 16},
    {Op::kSigmoid, -10, 10, 6},  {Op::kPow, 0.1, 5, 16},     {Op::kAtan2, 0.1, 10, 6},   {Op::kHypot, 0.1, 10, 4},
    {Op::kLogAddExp, 0.5, 10, 4}};
inline constexpr double kOurUlps = 4;

template <typename T>
double ulps_between(T a, T b) {
  if (a == b || (a != a && b != b)) return 0;
  const T size = std::max(std::abs(a), std::abs(b));
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
         static_cast<double>(std::nextafter(size, std::numeric_limits<T>::infinity()) - size);
}

// All functions of kBounds, each on its part of the elements.
template <typename T>
struct Functions {
  Array all;
  std::vector<T> numbers;  // what they are of; element i is by kBounds[i % size]
};
template <typename T>
Functions<T> functions() {
  constexpr std::int64_t kEach = 500;
  const std::int64_t count = static_cast<std::int64_t>(std::size(kBounds));
  Rng rng(sizeof(T));
  Functions<T> test;
  std::vector<std::int64_t> selected;
  for (std::int64_t i = 0; i < count * kEach; ++i) {
    const Bound& bound = kBounds[i % count];
    const double unit = (random_value(rng) + 10) / 20;
    test.numbers.push_back(static_cast<T>(bound.low + (bound.high - bound.low) * unit));
    selected.push_back(i % count);
  }
  const Array x = from_vector(test.numbers, {count * kEach});
  std::vector<Array> results;
  const Array y = x * static_cast<T>(0.75);
  y.evaluate();
  for (const Bound& bound : kBounds) {
    results.push_back(bound.op <= Op::kBitwiseNot ? unary(bound.op, x) : binary(bound.op, x, y));
  }
  test.all = all_of(results, from_vector(selected, {count * kEach}), dtype_of<T>());
  return test;
}

}  // namespace ebb::array_test
