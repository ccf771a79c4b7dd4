// The operators of arrays on an OpenCL device (PoCL: the CPU), beside our own passes: bit by bit where an operator is
// exact, within the bounds of OpenCL's specification where it is a function.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "array/pass/device_pass.h"
#include "array/test/operator_table.h"
#include "array/test/reference.h"
#include "opencl_fixture.h"

namespace ebb::opencl_test {
namespace {

using array_test::all_of;
using array_test::KeepLimits;
using array_test::random_shape;
using array_test::random_view;
using array_test::takes;

constexpr Op kExactUnary[] = {Op::kNegative, Op::kAbs,     Op::kSign,       Op::kSquare,    Op::kSqrt,  Op::kReciprocal,
                              Op::kFloor,    Op::kCeil,    Op::kTrunc,      Op::kRound,     Op::kIsNan, Op::kIsInf,
                              Op::kIsFinite, Op::kSignBit, Op::kLogicalNot, Op::kBitwiseNot};
constexpr Op kExactBinary[] = {Op::kAdd,         Op::kSubtract,  Op::kMultiply,   Op::kDivide,    Op::kFloorDivide,
                               Op::kRemainder,   Op::kMaximum,   Op::kMinimum,    Op::kCopySign,  Op::kNextAfter,
                               Op::kBitwiseAnd,  Op::kBitwiseOr, Op::kBitwiseXor, Op::kShiftLeft, Op::kShiftRight,
                               Op::kEqual,       Op::kNotEqual,  Op::kLess,       Op::kLessEqual, Op::kGreater,
                               Op::kGreaterEqual};

// Random values with what is special among them.
Array values(Rng& rng, std::int64_t count, DType dtype) {
  std::vector<double> list(static_cast<std::size_t>(count));
  const double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40, INFINITY, -INFINITY, NAN, 3e38, 64.0, 7.0};
  for (double& value : list) {
    value = rng.chance(1, 2) ? special[rng.below(std::size(special))] : array_test::random_value(rng) * 7;
    if (is_integer(dtype)) value = std::isfinite(value) ? std::trunc(value) : -9.0;
  }
  return from_memory(list.data(), {count}, DType::kF64).astype(dtype).evaluate();
}

bool same_value(const std::byte* a, const std::byte* b, DType dtype) {
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

class OpenClOperators : public OpenClTest {
 protected:
  void SetUp() override {
    OpenClTest::SetUp();
    if (layer_ == nullptr) return;
    device_ = open();
    set_combine_limits({4096, 4096, std::uint64_t{1} << 40});
  }
  void TearDown() override {
    use_opencl(nullptr);
    OpenClTest::TearDown();
  }
  const OpenClDeviceInfo& info() const { return device_->info(); }

  // The elements of an expression by the device, which leaves it lazy.
  std::vector<std::byte> on_device(const Array& lazy) {
    EXPECT_TRUE(lazy.is_lazy());
    const array::ShapePtr& shape = lazy.node()->shape;
    std::vector<std::byte> out(static_cast<std::size_t>(shape->count) * size_of(shape->dtype));
    const auto memory = array::adopt_storage(out.data(), out.size(), nullptr);
    use_opencl(device_, 1);
    EXPECT_TRUE(array::device_pass(lazy.node(), {out.data(), shape, memory.get()}));
    use_opencl(nullptr);
    return out;
  }

  // The kernel of the expression gives what its pass gives; NaNs may be others.
  void expect_same(const Array& lazy, const std::vector<Op>& ops = {}) {
    const std::vector<std::byte> got = on_device(lazy);
    const std::size_t element = size_of(lazy.dtype());
    const auto* want = static_cast<const std::byte*>(lazy.evaluate().data());
    for (std::size_t i = 0; i < got.size() / element; ++i) {
      ASSERT_TRUE(same_value(got.data() + i * element, want + i * element, lazy.dtype()))
          << "element " << i << (ops.empty() ? "" : std::string(", ") + name(ops[i % ops.size()])) << " of "
          << name(lazy.dtype());
    }
  }

  template <typename T>
  void check_functions();

  KeepLimits keep_;
  std::shared_ptr<OpenClDevice> device_;
};

TEST_F(OpenClOperators, ExactOperatorsGiveTheSameBits) {
  for (int type = 0; type < kDTypes; ++type) {
    const auto dtype = static_cast<DType>(type);
    if (dtype == DType::kF64 && !info().has_f64) continue;
    SCOPED_TRACE(std::string(name(dtype)) + " on " + info().name);
    std::vector<Op> ops;
    std::vector<Array> results;
    Rng rng(static_cast<std::uint64_t>(dtype) + 1);
    std::vector<Op> candidates(std::begin(kExactUnary), std::end(kExactUnary));
    candidates.insert(candidates.end(), std::begin(kExactBinary), std::end(kExactBinary));
    if (is_integer(dtype)) candidates.push_back(Op::kPow);
    for (Op op : candidates) {
      const bool rounds = op == Op::kDivide || op == Op::kSqrt || op == Op::kReciprocal;
      if (takes(op, dtype) && (!rounds || dtype == DType::kF64 || info().exact_divide)) ops.push_back(op);
    }
    const auto count = static_cast<std::int64_t>(ops.size());
    const Array x = values(rng, count * 200, dtype), y = values(rng, count * 200, dtype);
    for (Op op : ops) results.push_back(op <= Op::kBitwiseNot ? unary(op, x) : binary(op, x, y));
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count) * 200);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) % count;
    const Array selector = from_vector(numbers, {count * 200});
    expect_same(all_of(results, selector, dtype), ops);
  }
}

TEST_F(OpenClOperators, ConversionsGiveTheSameBits) {
  if (!info().has_f64) GTEST_SKIP() << "the device has no f64";
  for (int from = 0; from < kDTypes; ++from) {
    Rng rng(static_cast<std::uint64_t>(from) + 100);
    const Array x = values(rng, 300, static_cast<DType>(from));
    std::vector<Array> results;
    std::vector<std::int64_t> numbers(300);
    for (int to = 0; to < kDTypes; ++to) results.push_back(x.astype(static_cast<DType>(to)));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) % kDTypes;
    SCOPED_TRACE(std::string("from ") + name(static_cast<DType>(from)));
    expect_same(all_of(results, from_vector(numbers, {300}), DType::kF64));
  }
}

TEST_F(OpenClOperators, ViewsAndBroadcastsAreReadWhereTheyLie) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const DType dtype = seed % 2 == 0 ? DType::kF32 : DType::kI16;
    const Dims shape = random_shape(rng, 4, 9);
    Dims part = shape;
    if (!part.empty()) part[rng.below(part.size())] = 1;
    const Array a = random_view(rng, shape, dtype), b = random_view(rng, part, dtype), c = random_view(rng, shape);
    expect_same(where(a < b, (a + b) * a - scalar(3.0, dtype), maximum(a, b)).astype(DType::kF32) +
                c.astype(DType::kF32));
  }
}

// Functions of the device's library may err by what OpenCL 1.2 allows (section 7.4), ours by 4 units in the last place.
struct Bound {
  Op op;
  double low, high, ulps;
};
constexpr Bound kBounds[] = {
    {Op::kExp, -20, 20, 3},      {Op::kExp2, -20, 20, 3},    {Op::kExpm1, -3, 3, 3},     {Op::kLog, 0.01, 100, 3},
    {Op::kLog2, 0.01, 100, 3},   {Op::kLog10, 0.01, 100, 3}, {Op::kLog1p, -0.5, 100, 2}, {Op::kSin, -10, 10, 4},
    {Op::kCos, -10, 10, 4},      {Op::kTan, -1.5, 1.5, 5},   {Op::kAsin, -1, 1, 4},      {Op::kAcos, -1, 1, 4},
    {Op::kAtan, -10, 10, 5},     {Op::kSinh, -5, 5, 4},      {Op::kCosh, -5, 5, 4},      {Op::kTanh, -5, 5, 5},
    {Op::kAsinh, -10, 10, 4},    {Op::kAcosh, 1, 10, 4},     {Op::kAtanh, -0.9, 0.9, 5}, {Op::kErf, -3, 3, 16},
    {Op::kSigmoid, -10, 10, 6},  {Op::kPow, 0.1, 5, 16},     {Op::kAtan2, 0.1, 10, 6},   {Op::kHypot, 0.1, 10, 4},
    {Op::kLogAddExp, 0.5, 10, 4}};
constexpr double kOurUlps = 4;

template <typename T>
double ulps_between(T a, T b) {
  if (a == b || (a != a && b != b)) return 0;
  const T size = std::max(std::abs(a), std::abs(b));
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
         static_cast<double>(std::nextafter(size, std::numeric_limits<T>::infinity()) - size);
}

template <typename T>
void OpenClOperators::check_functions() {
  constexpr std::int64_t kEach = 500;
  const std::int64_t count = static_cast<std::int64_t>(std::size(kBounds));
  Rng rng(sizeof(T));
  std::vector<T> numbers;
  std::vector<std::int64_t> selected;
  for (std::int64_t i = 0; i < count * kEach; ++i) {
    const Bound& bound = kBounds[i % count];
    const double unit = (array_test::random_value(rng) + 10) / 20;
    numbers.push_back(static_cast<T>(bound.low + (bound.high - bound.low) * unit));
    selected.push_back(i % count);
  }
  const Array x = from_vector(numbers, {count * kEach});
  std::vector<Array> results;
  const Array y = x * static_cast<T>(0.75);
  y.evaluate();
  for (const Bound& bound : kBounds) {
    results.push_back(bound.op <= Op::kBitwiseNot ? unary(bound.op, x) : binary(bound.op, x, y));
  }
  const Array all = all_of(results, from_vector(selected, {count * kEach}), dtype_of<T>());
  const std::vector<std::byte> bytes = on_device(all);
  std::vector<T> got(numbers.size());
  std::memcpy(got.data(), bytes.data(), bytes.size());
  const std::vector<T> want = all.to_vector<T>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Bound& bound = kBounds[i % std::size(kBounds)];
    ASSERT_LE(ulps_between(got[i], want[i]), bound.ulps + kOurUlps)
        << name(bound.op) << "(" << numbers[i] << ") is " << want[i] << " here, " << got[i] << " there";
  }
}

TEST_F(OpenClOperators, FunctionsAreWithinTheirBounds) {
  check_functions<float>();
  if (info().has_f64) check_functions<double>();
}

// An operator that is added to the table is added to these tests.
TEST(OpenClOperatorTable, IsCovered) {
  std::set<Op> covered(std::begin(kExactUnary), std::end(kExactUnary));
  covered.insert(std::begin(kExactBinary), std::end(kExactBinary));
  for (const Bound& bound : kBounds) covered.insert(bound.op);
  covered.insert({Op::kCast, Op::kWhere});  // in every test
  for (int op = 0; op < kOps; ++op) EXPECT_TRUE(covered.contains(static_cast<Op>(op))) << name(static_cast<Op>(op));
}

}  // namespace
}  // namespace ebb::opencl_test
