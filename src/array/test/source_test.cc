// Generated kernels: the OpenCL C runs on whatever device there is (PoCL: the CPU) and is compared with our own passes,
// bit by bit where an operator is exact; the CUDA C is compiled by NVRTC where that is installed.
#include "array/source/source.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "opencl.h"
#include "reference.h"

namespace ebb {
namespace {

using array_test::KeepLimits;
using array_test::OpenClDevice;
using array_test::random_shape;
using array_test::random_view;

OpenClDevice* device(std::string* reason) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  *reason = "a compiler inside this process is more than the sanitizers can follow";
  return nullptr;
#endif
  static std::string why;
  static const std::unique_ptr<OpenClDevice> opened = OpenClDevice::open(&why);
  *reason = why;
  return opened.get();
}

constexpr Op kExactUnary[] = {Op::kNegative, Op::kAbs,     Op::kSign,       Op::kSquare,    Op::kSqrt,  Op::kReciprocal,
                              Op::kFloor,    Op::kCeil,    Op::kTrunc,      Op::kRound,     Op::kIsNan, Op::kIsInf,
                              Op::kIsFinite, Op::kSignBit, Op::kLogicalNot, Op::kBitwiseNot};
constexpr Op kExactBinary[] = {Op::kAdd,         Op::kSubtract,  Op::kMultiply,   Op::kDivide,    Op::kFloorDivide,
                               Op::kRemainder,   Op::kMaximum,   Op::kMinimum,    Op::kCopySign,  Op::kNextAfter,
                               Op::kBitwiseAnd,  Op::kBitwiseOr, Op::kBitwiseXor, Op::kShiftLeft, Op::kShiftRight,
                               Op::kEqual,       Op::kNotEqual,  Op::kLess,       Op::kLessEqual, Op::kGreater,
                               Op::kGreaterEqual};

// Whether the standard has the operator for the type.
bool takes(Op op, DType dtype) {
  try {
    const Array one = full({1}, 1.0, dtype);
    const bool is_unary = op <= Op::kBitwiseNot;
    return (is_unary ? unary(op, one) : binary(op, one, one)).node()->inputs.front()->dtype() == dtype;
  } catch (const Error&) {
    return false;
  }
}

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

// One expression that applies the i-th operator to the elements whose selector is i.
Array all_of(const std::vector<Array>& results, const Array& selector, DType dtype) {
  Array all = results.front().astype(dtype);
  for (std::size_t k = 1; k < results.size(); ++k) {
    all = where(equal(selector, scalar_int(static_cast<std::int64_t>(k))), results[k].astype(dtype), all);
  }
  return all;
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

// The kernel of the expression gives what its pass gives; NaNs may be others.
void expect_same(OpenClDevice& on, const Array& lazy, const std::vector<Op>& ops = {}) {
  ASSERT_TRUE(lazy.is_lazy());
  const std::vector<std::byte> got = on.run(array::generate(lazy.node(), Dialect::kOpenCl));
  const std::size_t element = size_of(lazy.dtype());
  const auto* want = static_cast<const std::byte*>(lazy.evaluate().data());
  for (std::size_t i = 0; i < got.size() / element; ++i) {
    ASSERT_TRUE(same_value(got.data() + i * element, want + i * element, lazy.dtype()))
        << "element " << i << (ops.empty() ? "" : std::string(", ") + name(ops[i % ops.size()])) << " of "
        << name(lazy.dtype());
  }
}

class OpenCl : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    device_ = device(&reason);
    if (device_ == nullptr) GTEST_SKIP() << reason;
    set_combine_limits({4096, 4096, std::uint64_t{1} << 40});
  }

  KeepLimits keep_;
  OpenClDevice* device_ = nullptr;
};

TEST_F(OpenCl, ExactOperatorsGiveTheSameBits) {
  const DType types[] = {DType::kBool, DType::kI8,  DType::kI32,  DType::kI64, DType::kU8,
                         DType::kU64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (DType dtype : types) {
    if (dtype == DType::kF64 && !device_->has_f64()) continue;
    SCOPED_TRACE(std::string(name(dtype)) + " on " + device_->device_name());
    std::vector<Op> ops;
    std::vector<Array> results;
    Rng rng(static_cast<std::uint64_t>(dtype) + 1);
    std::vector<Op> candidates(std::begin(kExactUnary), std::end(kExactUnary));
    candidates.insert(candidates.end(), std::begin(kExactBinary), std::end(kExactBinary));
    for (Op op : candidates) {
      const bool rounds = op == Op::kDivide || op == Op::kSqrt || op == Op::kReciprocal;
      if (takes(op, dtype) && (!rounds || dtype == DType::kF64 || device_->divides_exactly())) ops.push_back(op);
    }
    const auto count = static_cast<std::int64_t>(ops.size());
    const Array x = values(rng, count * 200, dtype), y = values(rng, count * 200, dtype);
    for (Op op : ops) results.push_back(op <= Op::kBitwiseNot ? unary(op, x) : binary(op, x, y));
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count) * 200);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) % count;
    const Array selector = from_vector(numbers, {count * 200});
    expect_same(*device_, all_of(results, selector, dtype), ops);
  }
}

TEST_F(OpenCl, ConversionsGiveTheSameBits) {
  if (!device_->has_f64()) GTEST_SKIP() << "the device has no f64";
  for (int from = 0; from < kDTypes; ++from) {
    Rng rng(static_cast<std::uint64_t>(from) + 100);
    const Array x = values(rng, 300, static_cast<DType>(from));
    std::vector<Array> results;
    std::vector<std::int64_t> numbers(300);
    for (int to = 0; to < kDTypes; ++to) results.push_back(x.astype(static_cast<DType>(to)));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) % kDTypes;
    SCOPED_TRACE(std::string("from ") + name(static_cast<DType>(from)));
    expect_same(*device_, all_of(results, from_vector(numbers, {300}), DType::kF64));
  }
}

TEST_F(OpenCl, ViewsAndBroadcastsAreReadWhereTheyLie) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const DType dtype = seed % 2 == 0 ? DType::kF32 : DType::kI16;
    const Dims shape = random_shape(rng, 4, 9);
    Dims part = shape;
    if (!part.empty()) part[rng.below(part.size())] = 1;
    const Array a = random_view(rng, shape, dtype), b = random_view(rng, part, dtype), c = random_view(rng, shape);
    expect_same(*device_, where(a < b, (a + b) * a - scalar(3.0, dtype), maximum(a, b)).astype(DType::kF32) +
                              c.astype(DType::kF32));
  }
}

// Functions of the device's library may err by what OpenCL 1.2 allows (section 7.4), ours by 4 units in the last place.
struct Bound {
  Op op;
  double low, high, ulps;
};
constexpr Bound kBounds[] = {{Op::kExp, -20, 20, 3},     {Op::kExp2, -20, 20, 3},   {Op::kExpm1, -3, 3, 3},
                             {Op::kLog, 0.01, 100, 3},   {Op::kLog2, 0.01, 100, 3}, {Op::kLog10, 0.01, 100, 3},
                             {Op::kLog1p, -0.5, 100, 2}, {Op::kSin, -10, 10, 4},    {Op::kCos, -10, 10, 4},
                             {Op::kTan, -1.5, 1.5, 5},   {Op::kAsin, -1, 1, 4},     {Op::kAcos, -1, 1, 4},
                             {Op::kAtan, -10, 10, 5},    {Op::kSinh, -5, 5, 4},     {Op::kCosh, -5, 5, 4},
                             {Op::kTanh, -5, 5, 5},      {Op::kAsinh, -10, 10, 4},  {Op::kAcosh, 1, 10, 4},
                             {Op::kAtanh, -0.9, 0.9, 5}, {Op::kErf, -3, 3, 16},     {Op::kSigmoid, -10, 10, 6}};
constexpr double kOurUlps = 4;

template <typename T>
double ulps_between(T a, T b) {
  if (a == b || (a != a && b != b)) return 0;
  const T size = std::max(std::abs(a), std::abs(b));
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
         static_cast<double>(std::nextafter(size, std::numeric_limits<T>::infinity()) - size);
}

template <typename T>
void check_functions(OpenClDevice& on) {
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
  for (const Bound& bound : kBounds) results.push_back(unary(bound.op, x));
  const Array all = all_of(results, from_vector(selected, {count * kEach}), dtype_of<T>());
  const std::vector<std::byte> bytes = on.run(array::generate(all.node(), Dialect::kOpenCl));
  std::vector<T> got(numbers.size());
  std::memcpy(got.data(), bytes.data(), bytes.size());
  const std::vector<T> want = all.to_vector<T>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Bound& bound = kBounds[i % std::size(kBounds)];
    ASSERT_LE(ulps_between(got[i], want[i]), bound.ulps + kOurUlps)
        << name(bound.op) << "(" << numbers[i] << ") is " << want[i] << " here, " << got[i] << " there";
  }
}

TEST_F(OpenCl, FunctionsAreWithinTheirBounds) {
  check_functions<float>(*device_);
  if (device_->has_f64()) check_functions<double>(*device_);
}

// ---- CUDA C

using Program = void*;
struct Nvrtc {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
};

bool load(Nvrtc& api) {
  void* library = nullptr;
  for (const char* file : {EBB_NVRTC, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
    if (library == nullptr && *file != '\0') library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return false;
  api.create = reinterpret_cast<decltype(api.create)>(dlsym(library, "nvrtcCreateProgram"));
  api.compile = reinterpret_cast<decltype(api.compile)>(dlsym(library, "nvrtcCompileProgram"));
  api.log_size = reinterpret_cast<decltype(api.log_size)>(dlsym(library, "nvrtcGetProgramLogSize"));
  api.log = reinterpret_cast<decltype(api.log)>(dlsym(library, "nvrtcGetProgramLog"));
  api.destroy = reinterpret_cast<decltype(api.destroy)>(dlsym(library, "nvrtcDestroyProgram"));
  return api.create != nullptr && api.compile != nullptr && api.log_size != nullptr && api.log != nullptr &&
         api.destroy != nullptr;
}

void expect_compiles(const Nvrtc& api, const std::string& text) {
  Program program = nullptr;
  ASSERT_EQ(api.create(&program, text.c_str(), "ebb_pass.cu", 0, nullptr, nullptr), 0);
  const char* const options[] = {"--fmad=false"};
  const int status = api.compile(program, 1, options);
  std::size_t bytes = 0;
  api.log_size(program, &bytes);
  std::string log(bytes + 1, '\0');
  api.log(program, log.data());
  EXPECT_EQ(status, 0) << log << "\n" << text;
  api.destroy(&program);
}

TEST(CudaSource, CompilesForEveryOperatorAndType) {
  Nvrtc api{};
  if (!load(api)) GTEST_SKIP() << "no NVRTC: it comes with PyTorch for CUDA";
  const KeepLimits keep;
  set_combine_limits({4096, 4096, std::uint64_t{1} << 40});
  for (DType dtype : {DType::kBool, DType::kI8, DType::kI64, DType::kU64, DType::kF16, DType::kF32, DType::kF64}) {
    SCOPED_TRACE(name(dtype));
    const Array x = full({6, 5}, 1.0, dtype), y = full({5}, 1.0, dtype);
    std::vector<Array> results;
    for (int op = 0; op < static_cast<int>(Op::kWhere); ++op) {
      if (static_cast<Op>(op) == Op::kCast || !takes(static_cast<Op>(op), dtype)) continue;
      results.push_back(static_cast<Op>(op) <= Op::kBitwiseNot ? unary(static_cast<Op>(op), x)
                                                               : binary(static_cast<Op>(op), x, y));
    }
    for (int to = 0; to < kDTypes; ++to) results.push_back(x.astype(static_cast<DType>(to)));
    expect_compiles(api, kernel_source(all_of(results, full_int({6, 5}, 1), dtype), Dialect::kCuda));
  }
}

TEST(CudaSource, RefusesWhatIsNoPass) {
  EXPECT_THROW(kernel_source(full({3}, 1.0), Dialect::kCuda), Error);
  EXPECT_THROW(kernel_source(sum(full({3}, 1.0) + 1.0), Dialect::kOpenCl), Error);
  const Array x = full({3}, 2.0);
  EXPECT_EQ(kernel_source(x + 1.0, Dialect::kOpenCl), kernel_source(x + 1.0, Dialect::kOpenCl));
}

}  // namespace
}  // namespace ebb
