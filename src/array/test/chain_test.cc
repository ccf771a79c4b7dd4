// Chains: every operator that runs in vector registers, on values that are special, in every length and position.
#include "array/kernels/chain.h"

#include <gtest/gtest.h>

#include <functional>

#include "reference.h"

namespace ebb {
namespace {

using array_test::KeepLimits;
using array_test::random_view;
using array_test::same_bits;

template <typename T>
std::vector<T> special_values() {
  const T least = std::numeric_limits<T>::denorm_min(), most = std::numeric_limits<T>::max();
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  return {T{0}, -T{0}, T{1}, T{-1}, T(0.1), T{-3}, least, -least, most, -most, infinity, -infinity, nan, -nan};
}

template <typename T>
struct Reference {
  Op op;
  bool is_unary;
  std::function<T(T, T)> apply;
};

template <typename T>
std::vector<Reference<T>> references() {
  return {{Op::kNegative, true, [](T x, T) { return -x; }},
          {Op::kAbs, true, [](T x, T) { return std::abs(x); }},
          {Op::kSquare, true, [](T x, T) { return x * x; }},
          {Op::kSqrt, true, [](T x, T) { return std::sqrt(x); }},
          {Op::kReciprocal, true, [](T x, T) { return T{1} / x; }},
          {Op::kAdd, false, [](T x, T y) { return x + y; }},
          {Op::kSubtract, false, [](T x, T y) { return x - y; }},
          {Op::kMultiply, false, [](T x, T y) { return x * y; }},
          {Op::kDivide, false, [](T x, T y) { return x / y; }},
          {Op::kMaximum, false, [](T x, T y) { return x > y || x != x ? x : y; }},
          {Op::kMinimum, false, [](T x, T y) { return x < y || x != x ? x : y; }}};
}

// Every pair of special values: the left one in column 0, the right one in column 1.
template <typename T>
void check_special_values() {
  std::vector<T> left, right;
  for (T x : special_values<T>()) {
    for (T y : special_values<T>()) left.push_back(x), right.push_back(y);
  }
  const auto count = static_cast<std::int64_t>(left.size());
  const Array x = from_vector(left, {count}), y = from_vector(right, {count});
  for (const Reference<T>& test : references<T>()) {
    ASSERT_TRUE(array::is_chained(test.op, array::compute_of(dtype_of<T>()))) << name(test.op);
    const Array result = test.is_unary ? unary(test.op, x) : binary(test.op, x, y);
    const std::vector<T> got = result.template to_vector<T>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const T want = test.apply(left[i], right[i]);
      if (want != want) {
        ASSERT_NE(got[i], got[i]) << name(test.op) << " of " << left[i] << " and " << right[i];
      } else {
        ASSERT_EQ(std::memcmp(&got[i], &want, sizeof(T)), 0)
            << name(test.op) << " of " << left[i] << " and " << right[i] << " is " << got[i] << ", not " << want;
      }
    }
  }
}

TEST(Chain, OperatorsOnSpecialValues) {
  check_special_values<float>();
  check_special_values<double>();
}

template <typename T>
std::vector<Reference<T>> functions() {
  return {{Op::kExp, true, [](T x, T) { return std::exp(x); }},
          {Op::kLog, true, [](T x, T) { return std::log(x); }},
          {Op::kLog2, true, [](T x, T) { return std::log2(x); }},
          {Op::kLog10, true, [](T x, T) { return std::log10(x); }},
          {Op::kSin, true, [](T x, T) { return std::sin(x); }},
          {Op::kCos, true, [](T x, T) { return std::cos(x); }},
          {Op::kTanh, true, [](T x, T) { return std::tanh(x); }},
          {Op::kAtan, true, [](T x, T) { return std::atan(x); }},
          {Op::kSigmoid, true, [](T x, T) { return T{1} / (T{1} + std::exp(-x)); }}};
}

// Functions, one element in eight beyond the range of the vector version: every element gets what it gets alone, which
// is close to the C library, and equal to it for special values.
template <typename T>
void check_functions() {
  const KeepLimits keep;
  const std::vector<T> special = special_values<T>();
  for (const Reference<T>& test : functions<T>()) {
    SCOPED_TRACE(name(test.op));
    ASSERT_TRUE(array::is_chained(test.op, array::compute_of(dtype_of<T>())));
    Rng rng(static_cast<std::uint64_t>(test.op));
    std::vector<T> values;
    for (int i = 0; i < 5000; ++i) {
      values.push_back(rng.chance(1, 8) ? special[rng.below(special.size())]
                                        : static_cast<T>(array_test::random_value(rng)));
    }
    const Array x = from_vector(values, {static_cast<std::int64_t>(values.size())});
    const std::vector<T> got = unary(test.op, x).template to_vector<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T want = test.apply(values[i], T{});
      if (want != want) {
        ASSERT_NE(got[i], got[i]) << values[i];
      } else if (std::isinf(want) || want == 0) {
        ASSERT_EQ(std::memcmp(&got[i], &want, sizeof(T)), 0) << values[i] << ": " << got[i] << ", not " << want;
      } else {
        const T error = std::abs(got[i] - want);
        ASSERT_LE(error, 4 * std::numeric_limits<T>::epsilon() * std::max(std::abs(want), T(0.01))) << values[i];
      }
      ASSERT_EQ(std::memcmp(&got[i], unary(test.op, from_vector<T>({values[i]}, {1})).data(), sizeof(T)), 0);
    }
    const auto expression = [&] { return unary(test.op, x * 0.5 + 1.0) * x - unary(test.op, x); };
    set_combine_limits({});
    const Array together = expression().evaluate();
    set_combine_limits({1, 1, 0});
    ASSERT_TRUE(same_bits(together, expression()));
    set_combine_limits({});
  }
}

TEST(Chain, FunctionsInAndBeyondTheirRange) {
  check_functions<float>();
  check_functions<double>();
}

// Long expressions over operands that hold NaNs of both signs: combined and single agree to the bit.
TEST(Chain, CombiningChangesNoBitOfANaN) {
  const KeepLimits keep;
  const Op ops[] = {Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kDivide, Op::kMaximum, Op::kMinimum};
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto expression = [&] {
      Rng rng(seed);
      std::vector<Array> values;
      std::vector<float> numbers;
      const std::vector<float> special = special_values<float>();
      const auto count = static_cast<std::int64_t>(rng.between(1, 3000));
      for (int k = 0; k < 3; ++k) {
        numbers.clear();
        for (std::int64_t i = 0; i < count; ++i) numbers.push_back(special[rng.below(special.size())]);
        values.push_back(from_vector(numbers, {count}));
      }
      values.push_back(scalar(0.0, DType::kF32));
      for (int i = 0; i < 20; ++i) {
        const Array& a = values[rng.below(values.size())];
        const Array& b = values[rng.below(values.size())];
        values.push_back(rng.chance(1, 6) ? unary(Op::kNegative, a) : binary(ops[rng.below(std::size(ops))], a, b));
      }
      return values.back();
    };
    set_combine_limits({});
    const Array together = expression().evaluate();
    set_combine_limits({1, 1, 0});
    ASSERT_TRUE(same_bits(together, expression()));
  }
}

TEST(Chain, LengthsAndViews) {
  const KeepLimits keep;
  for (std::int64_t count : {1, 7, 127, 128, 129, 1023, 1024, 1025, 65536, 65537, 100001}) {
    SCOPED_TRACE(count);
    Rng rng(static_cast<std::uint64_t>(count));
    const Array x = random_view(rng, {count}, DType::kF32), y = random_view(rng, {count}, DType::kF32);
    const auto expression = [&] { return sqrt(abs(x * y - 2.0)) / (y + 11.0) + maximum(x, y) * (x - y); };
    set_combine_limits({});
    const Array together = expression().evaluate();
    set_combine_limits({1, 1, 0});
    ASSERT_TRUE(same_bits(together, expression()));
  }
}

}  // namespace
}  // namespace ebb
