// Arithmetic, comparison and rounding of f32 and f64 tiles: plain loops, vectorised for each instruction set.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/float_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "array/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

template <typename T, typename F>
void unary_loop(const void* a, const void*, const void*, void* out, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  auto* o = static_cast<decltype(F::apply(T{}))*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = F::apply(x[i]);
}

template <typename T, typename F>
void binary_loop(const void* a, const void* b, const void*, void* out, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  auto* o = static_cast<decltype(F::apply(T{}, T{}))*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = F::apply(x[i], y[i]);
}

template <typename T>
void where_loop(const void* a, const void* b, const void* c, void* out, std::size_t n) {
  const auto* mask = static_cast<const std::uint8_t*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  T* o = static_cast<T*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = mask[i] ? x[i] : y[i];
}

using Flag = std::uint8_t;

// clang-format off
struct Negative { template <class T> static T apply(T x) { return -x; } };
struct Abs { template <class T> static T apply(T x) { return std::abs(x); } };
struct Sign { template <class T> static T apply(T x) { return x > T{0} ? T{1} : x < T{0} ? T{-1} : x + T{0}; } };
struct Square { template <class T> static T apply(T x) { return x * x; } };
struct Sqrt { template <class T> static T apply(T x) { return std::sqrt(x); } };
struct Reciprocal { template <class T> static T apply(T x) { return T{1} / x; } };
struct Floor { template <class T> static T apply(T x) { return std::floor(x); } };
struct Ceil { template <class T> static T apply(T x) { return std::ceil(x); } };
struct Trunc { template <class T> static T apply(T x) { return std::trunc(x); } };
struct Round { template <class T> static T apply(T x) { return std::nearbyint(x); } };
struct IsNan { template <class T> static Flag apply(T x) { return x != x; } };
struct IsInf { template <class T> static Flag apply(T x) { return std::abs(x) > std::numeric_limits<T>::max(); } };
struct IsFinite { template <class T> static Flag apply(T x) { return std::abs(x) <= std::numeric_limits<T>::max(); } };
struct SignBit { template <class T> static Flag apply(T x) { return std::signbit(x); } };
struct LogicalNot { template <class T> static Flag apply(T x) { return x == T{0}; } };
struct Add { template <class T> static T apply(T x, T y) { return x + y; } };
struct Subtract { template <class T> static T apply(T x, T y) { return x - y; } };
struct Multiply { template <class T> static T apply(T x, T y) { return x * y; } };
struct Divide { template <class T> static T apply(T x, T y) { return x / y; } };
struct Maximum { template <class T> static T apply(T x, T y) { return x > y || x != x ? x : y; } };
struct Minimum { template <class T> static T apply(T x, T y) { return x < y || x != x ? x : y; } };
struct CopySign { template <class T> static T apply(T x, T y) { return std::copysign(x, y); } };
struct Equal { template <class T> static Flag apply(T x, T y) { return x == y; } };
struct NotEqual { template <class T> static Flag apply(T x, T y) { return x != y; } };
struct Less { template <class T> static Flag apply(T x, T y) { return x < y; } };
struct LessEqual { template <class T> static Flag apply(T x, T y) { return x <= y; } };
// clang-format on

template <typename T>
Kernel find_unary(Op op) {
  switch (op) {
    case Op::kNegative: return unary_loop<T, Negative>;
    case Op::kAbs: return unary_loop<T, Abs>;
    case Op::kSign: return unary_loop<T, Sign>;
    case Op::kSquare: return unary_loop<T, Square>;
    case Op::kSqrt: return unary_loop<T, Sqrt>;
    case Op::kReciprocal: return unary_loop<T, Reciprocal>;
    case Op::kFloor: return unary_loop<T, Floor>;
    case Op::kCeil: return unary_loop<T, Ceil>;
    case Op::kTrunc: return unary_loop<T, Trunc>;
    case Op::kRound: return unary_loop<T, Round>;
    case Op::kIsNan: return unary_loop<T, IsNan>;
    case Op::kIsInf: return unary_loop<T, IsInf>;
    case Op::kIsFinite: return unary_loop<T, IsFinite>;
    case Op::kSignBit: return unary_loop<T, SignBit>;
    case Op::kLogicalNot: return unary_loop<T, LogicalNot>;
    default: return nullptr;
  }
}

// kGreater and kGreaterEqual are kLess and kLessEqual with the operands exchanged.
template <typename T>
Kernel find(Op op) {
  switch (op) {
    case Op::kAdd: return binary_loop<T, Add>;
    case Op::kSubtract: return binary_loop<T, Subtract>;
    case Op::kMultiply: return binary_loop<T, Multiply>;
    case Op::kDivide: return binary_loop<T, Divide>;
    case Op::kMaximum: return binary_loop<T, Maximum>;
    case Op::kMinimum: return binary_loop<T, Minimum>;
    case Op::kCopySign: return binary_loop<T, CopySign>;
    case Op::kEqual: return binary_loop<T, Equal>;
    case Op::kNotEqual: return binary_loop<T, NotEqual>;
    case Op::kLess: return binary_loop<T, Less>;
    case Op::kLessEqual: return binary_loop<T, LessEqual>;
    case Op::kWhere: return where_loop<T>;
    default: return find_unary<T>(op);
  }
}

Kernel find_here(Op op, Compute type) { return type == Compute::kF32 ? find<float>(op) : find<double>(op); }

void stream_out_here(const void* values, void* memory, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(memory, values, bytes);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  const auto* from = static_cast<const std::uint8_t*>(values);
  auto* to = static_cast<std::uint8_t*>(memory);
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) hn::Stream(hn::Load(d, from + i), d, to + i);
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_here);
HWY_EXPORT(stream_out_here);

Kernel find_float_kernel(Op op, Compute type) { return HWY_DYNAMIC_DISPATCH(find_here)(op, type); }
void stream_out(const void* values, void* memory, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_out_here)(values, memory, bytes);
}
void stream_fence() { hwy::FlushStream(); }

}  // namespace ebb::array
#endif
