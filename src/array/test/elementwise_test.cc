// Elementwise operators against the C library, over random shapes, strides, broadcasts and types.
#include <gtest/gtest.h>

#include <functional>

#include "reference.h"

namespace ebb {
namespace {

using array_test::element;
using array_test::random_shape;
using array_test::random_view;

struct UnaryCase {
  Op op;
  std::function<double(double)> reference;
  double low, high;  // operands are moved into this range
};

const std::vector<UnaryCase>& unary_cases() {
  using F = double (*)(double);
  static const std::vector<UnaryCase> cases = {{Op::kNegative, [](double x) { return -x; }, -10, 10},
                                               {Op::kAbs, F{std::abs}, -10, 10},
                                               {Op::kSquare, [](double x) { return x * x; }, -10, 10},
                                               {Op::kSqrt, F{std::sqrt}, 0, 100},
                                               {Op::kReciprocal, [](double x) { return 1 / x; }, 0.5, 10},
                                               {Op::kExp, F{std::exp}, -20, 20},
                                               {Op::kExp2, F{std::exp2}, -20, 20},
                                               {Op::kExpm1, F{std::expm1}, -3, 3},
                                               {Op::kLog, F{std::log}, 0.001, 100},
                                               {Op::kLog2, F{std::log2}, 0.001, 100},
                                               {Op::kLog10, F{std::log10}, 0.001, 100},
                                               {Op::kLog1p, F{std::log1p}, -0.5, 100},
                                               {Op::kSin, F{std::sin}, -10, 10},
                                               {Op::kCos, F{std::cos}, -10, 10},
                                               {Op::kTan, F{std::tan}, -1, 1},
                                               {Op::kAsin, F{std::asin}, -1, 1},
                                               {Op::kAcos, F{std::acos}, -1, 1},
                                               {Op::kAtan, F{std::atan}, -10, 10},
                                               {Op::kSinh, F{std::sinh}, -5, 5},
                                               {Op::kCosh, F{std::cosh}, -5, 5},
                                               {Op::kTanh, F{std::tanh}, -5, 5},
                                               {Op::kAsinh, F{std::asinh}, -10, 10},
                                               {Op::kAcosh, F{std::acosh}, 1, 10},
                                               {Op::kAtanh, F{std::atanh}, -0.9, 0.9},
                                               {Op::kErf, F{std::erf}, -3, 3},
                                               {Op::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -10, 10},
                                               {Op::kFloor, F{std::floor}, -10, 10},
                                               {Op::kCeil, F{std::ceil}, -10, 10},
                                               {Op::kTrunc, F{std::trunc}, -10, 10},
                                               {Op::kRound, F{std::nearbyint}, -10, 10}};
  return cases;
}

template <typename T>
void check_unary(const UnaryCase& test, std::uint64_t seed, double tolerance) {
  SCOPED_TRACE(std::string(name(test.op)) + ", seed " + std::to_string(seed));
  Rng rng(seed);
  const Dims shape = random_shape(rng, 3, 40);
  // Random values lie in [-10, 10].
  const double scale = (test.high - test.low) / 20, shift = (test.high + test.low) / 2;
  const Array x = (random_view(rng, shape) * scale + shift).astype(dtype_of<T>()).evaluate();
  const Array y = unary(test.op, x).evaluate();
  ASSERT_EQ(y.shape(), shape);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const double expected = test.reference(element<T>(x, shape, i));
    ASSERT_NEAR(element<T>(y, shape, i), expected, tolerance * std::max(1.0, std::abs(expected)))
        << "of " << element<T>(x, shape, i);
  }
}

TEST(Elementwise, FunctionsAgreeWithTheCLibrary) {
  for (const UnaryCase& test : unary_cases()) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      check_unary<float>(test, seed, 2e-6);
      check_unary<double>(test, seed, 2e-15);
    }
  }
}

struct BinaryCase {
  Op op;
  std::function<double(double, double)> reference;
};

// Python's, exact for the small integers that are used here.
double floored(double x, double y) { return std::floor(x / y); }
double modulo(double x, double y) { return x - y * std::floor(x / y); }

TEST(Elementwise, BinaryOperatorsBroadcastAnyViews) {
  const std::vector<BinaryCase> cases = {{Op::kAdd, std::plus<double>()},
                                         {Op::kSubtract, std::minus<double>()},
                                         {Op::kMultiply, std::multiplies<double>()},
                                         {Op::kFloorDivide, floored},
                                         {Op::kRemainder, modulo},
                                         {Op::kMaximum, [](double x, double y) { return std::max(x, y); }},
                                         {Op::kMinimum, [](double x, double y) { return std::min(x, y); }}};
  const DType types[] = {DType::kI8,  DType::kI16, DType::kI32, DType::kI64,  DType::kU8,  DType::kU16,
                         DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (const BinaryCase& test : cases) {
    for (const DType dtype : types) {
      const std::uint64_t seed = static_cast<std::uint64_t>(dtype) + 100;
      SCOPED_TRACE(std::string(name(test.op)) + " of " + name(dtype) + ", seed " + std::to_string(seed));
      if (test.op == Op::kSubtract && is_unsigned_integer(dtype)) continue;  // wraps: a test of its own
      Rng rng(seed);
      const Dims shape{3, 5, 70};
      const auto operand = [&](const Dims& sizes) {
        const Array raw = random_view(rng, sizes, DType::kI32);
        const Array signs = is_unsigned_integer(dtype) ? abs(raw) : raw;
        return where(equal(signs, 0.0), 3.0, signs).astype(dtype);  // no division by zero
      };
      const Array x = operand({3, 1, 70}), y = operand({5, 70});
      const Array result = binary(test.op, x, y);
      ASSERT_EQ(result.dtype(), dtype);
      ASSERT_EQ(result.shape(), shape);
      const auto got = result.astype(DType::kF64).evaluate();
      const auto p = x.astype(DType::kF64).evaluate(), q = y.astype(DType::kF64).evaluate();
      for (std::int64_t i = 0; i < got.size(); ++i) {
        const double u = element<double>(p, shape, i), v = element<double>(q, shape, i);
        ASSERT_EQ(element<double>(got, shape, i), test.reference(u, v)) << u << " and " << v;
      }
    }
  }
}

TEST(Elementwise, SpecialValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{0.0, -0.0, inf, -inf, nan, 1e300, -1e300, 5e-324, 1.0, -1.0, 710.0, -746.0, 1e6};
  const Array x = from_vector(values, {static_cast<std::int64_t>(values.size())});
  for (const UnaryCase& test : unary_cases()) {
    const auto got = unary(test.op, x).to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = test.reference(values[i]);
      SCOPED_TRACE(std::string(name(test.op)) + "(" + std::to_string(values[i]) + ")");
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got[i])) << got[i];
      } else if (std::isinf(expected) || expected == 0) {
        EXPECT_EQ(got[i], expected);
        EXPECT_EQ(std::signbit(got[i]), std::signbit(expected));
      } else {
        EXPECT_NEAR(got[i] / expected, 1.0, 1e-14);
      }
    }
  }
}

TEST(Elementwise, IntegersWrapAndDivisionByZeroIsZero) {
  const Array a = from_vector<std::int8_t>({127, -128, 100, 5}, {4});
  EXPECT_EQ((a + full_int({}, 1, DType::kI8)).to_vector<std::int8_t>(), (std::vector<std::int8_t>{-128, -127, 101, 6}));
  EXPECT_EQ(unary(Op::kNegative, a).to_vector<std::int8_t>(), (std::vector<std::int8_t>{-127, -128, -100, -5}));
  const Array u = from_vector<std::uint16_t>({0, 1, 65535}, {3});
  EXPECT_EQ((u - full_int({}, 1, DType::kU16)).to_vector<std::uint16_t>(),
            (std::vector<std::uint16_t>{65535, 0, 65534}));
  const Array big = from_vector<std::int64_t>({std::numeric_limits<std::int64_t>::min(), 7}, {2});
  const Array by = from_vector<std::int64_t>({-1, 0}, {2});
  EXPECT_EQ(binary(Op::kFloorDivide, big, by).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 0}));
  EXPECT_EQ(binary(Op::kRemainder, big, by).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(pow(from_vector<std::int64_t>({2, -3, 1, 0}, {4}), from_vector<std::int64_t>({10, 3, -5, 0}, {4}))
                .to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{1024, -27, 1, 1}));
}

TEST(Elementwise, ComparisonsAndWhere) {
  const Array a = from_vector<float>({1, 2, 3, std::nanf("")}, {4}), b = from_vector<float>({2, 2, 2, 2}, {4});
  using Flags = std::vector<bool>;
  EXPECT_EQ((a < b).to_vector<bool>(), (Flags{true, false, false, false}));
  EXPECT_EQ((a <= b).to_vector<bool>(), (Flags{true, true, false, false}));
  EXPECT_EQ((a > b).to_vector<bool>(), (Flags{false, false, true, false}));
  EXPECT_EQ((a >= b).to_vector<bool>(), (Flags{false, true, true, false}));
  EXPECT_EQ(equal(a, b).to_vector<bool>(), (Flags{false, true, false, false}));
  EXPECT_EQ(not_equal(a, b).to_vector<bool>(), (Flags{true, false, true, true}));
  EXPECT_EQ(where(a > b, a, b * 10.0).to_vector<float>(), (std::vector<float>{20, 20, 3, 20}));
}

TEST(Elementwise, HalfTypesRoundLikeOneOperatorAtATime) {
  for (int bits = 0; bits < 65536; ++bits) {  // f16 to f32 and back is the identity, but for NaN
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) continue;
    const auto back = from_memory(&half, {}, DType::kF16).astype(DType::kF32).astype(DType::kF16).evaluate();
    std::uint16_t again;
    std::memcpy(&again, back.data(), 2);
    ASSERT_EQ(again, half);
    if (bits % 64 != 0) bits += 62;
  }
  const Array wide = from_vector<double>({1.0 + 0x1p-11 + 0x1p-40, 1.0 + 0x1p-11, 65519.99, 65520.0, 1e-8}, {5});
  EXPECT_EQ(wide.astype(DType::kF16).to_vector<double>(),
            (std::vector<double>{1.0 + 0x1p-10, 1.0, 65504.0, std::numeric_limits<double>::infinity(), 0.0}));
  const Array b = from_vector<float>({1.0f, 1.00390625f, 3e38f}, {3}).astype(DType::kBF16);
  EXPECT_EQ((b + b).dtype(), DType::kBF16);
  EXPECT_EQ((b + full({}, 0.00390625, DType::kBF16)).to_vector<float>()[0], 1.0f);  // a tie goes to even
}

TEST(Elementwise, TypesArePromotedAsTheStandardSays) {
  EXPECT_EQ(promote(DType::kI8, DType::kU8), DType::kI16);
  EXPECT_EQ(promote(DType::kU32, DType::kI8), DType::kI64);
  EXPECT_EQ(promote(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(promote(DType::kI64, DType::kF32), DType::kF32);
  EXPECT_EQ(promote(DType::kBool, DType::kU16), DType::kU16);
  EXPECT_THROW(promote(DType::kU64, DType::kI8), Error);
  const Array x = zeros({2}, DType::kF32);
  EXPECT_EQ((x * 2.5).dtype(), DType::kF32);
  EXPECT_EQ((zeros({2}, DType::kI32) * 2.0).dtype(), DType::kI32);
  EXPECT_EQ((zeros({2}, DType::kI32) * 2.5).dtype(), DType::kF32);
  EXPECT_EQ(exp(zeros({2}, DType::kI32)).dtype(), DType::kF32);
}

TEST(Elementwise, NonsenseIsRefusedWhenBuilt) {
  const Array a = zeros({3, 4}), b = zeros({3, 5}), flags = zeros({3}, DType::kBool);
  const std::uint64_t passes = array_stats().passes;
  EXPECT_THROW(a + b, Error);
  EXPECT_THROW(flags + flags, Error);
  EXPECT_THROW(binary(Op::kBitwiseAnd, a, a), Error);
  EXPECT_THROW(sum(a, {2}), Error);
  EXPECT_THROW(sum(a, {0, -2}), Error);
  EXPECT_THROW(max(empty({0, 3}), {0}), Error);
  EXPECT_THROW(matmul(a, b), Error);
  EXPECT_THROW(a.reshape({5, -1}), Error);
  EXPECT_THROW(empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(empty({-1}), Error);
  EXPECT_THROW(empty(Dims(33, 1)), Error);
  EXPECT_THROW(a.broadcast_to({4, 3}), Error);
  EXPECT_EQ(array_stats().passes, passes);  // nothing ran
}

}  // namespace
}  // namespace ebb
