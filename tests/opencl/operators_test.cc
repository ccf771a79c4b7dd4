// The operators of arrays on an OpenCL device (PoCL: the CPU), beside our own passes: bit by bit where an operator is
// exact, within the bounds of OpenCL's specification where it is a function.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "array/device/opencl_pass.h"
#include "array/test/operator_table.h"
#include "array/test/reference.h"
#include "opencl_fixture.h"

namespace ebb::opencl_test {
namespace {

using array_test::all_of;
using array_test::Bound;
using array_test::kBounds;
using array_test::KeepLimits;
using array_test::kExactBinary;
using array_test::kExactUnary;
using array_test::kOurUlps;
using array_test::random_shape;
using array_test::random_view;
using array_test::same_value;
using array_test::takes;
using array_test::ulps_between;
using array_test::values;

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
    EXPECT_TRUE(array::opencl_pass(lazy.node(), {out.data(), shape, memory.get()}));
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
    const auto test = array_test::exact_operators(dtype, [&](Op op) {
      const bool rounds = op == Op::kDivide || op == Op::kSqrt || op == Op::kReciprocal;
      return !rounds || dtype == DType::kF64 || info().exact_divide;
    });
    expect_same(test.all, test.ops);
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

template <typename T>
void OpenClOperators::check_functions() {
  const auto test = array_test::functions<T>();
  const std::vector<T>& numbers = test.numbers;
  const Array& all = test.all;
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
