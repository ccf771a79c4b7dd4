// Functions of f32 and f64 tiles: vector versions of some (functions.inc), the C library's of the rest.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/math_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "array/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#include "array/kernels/functions.inc"

// F: a function of functions.inc.
template <typename T, typename F>
void vector_loop(const void* a, const void*, const void*, void* out, std::size_t n) {
  const hn::ScalableTag<T> d;
  const T* x = static_cast<const T*>(a);
  T* o = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + i);
    const bool all = hn::AllTrue(d, is_in_range<F>(d, v));
    hn::StoreU(all ? F::vector(d, v) : mended<F>(d, v), d, o + i);
  }
}

template <typename T, typename F>
void scalar_loop(const void* a, const void*, const void*, void* out, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  T* o = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) o[i] = F::apply(x[i]);
}

template <typename T, typename F>
void scalar_loop2(const void* a, const void* b, const void*, void* out, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* o = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) o[i] = F::apply(x[i], y[i]);
}

// clang-format off
struct Exp2 { template <class T> static T apply(T x) { return std::exp2(x); } };
struct Expm1 { template <class T> static T apply(T x) { return std::expm1(x); } };
struct Log1p { template <class T> static T apply(T x) { return std::log1p(x); } };
struct Tan { template <class T> static T apply(T x) { return std::tan(x); } };
struct Asin { template <class T> static T apply(T x) { return std::asin(x); } };
struct Acos { template <class T> static T apply(T x) { return std::acos(x); } };
struct Sinh { template <class T> static T apply(T x) { return std::sinh(x); } };
struct Cosh { template <class T> static T apply(T x) { return std::cosh(x); } };
struct Asinh { template <class T> static T apply(T x) { return std::asinh(x); } };
struct Acosh { template <class T> static T apply(T x) { return std::acosh(x); } };
struct Atanh { template <class T> static T apply(T x) { return std::atanh(x); } };
struct Erf { template <class T> static T apply(T x) { return std::erf(x); } };
struct Pow { template <class T> static T apply(T x, T y) { return std::pow(x, y); } };
struct Atan2 { template <class T> static T apply(T x, T y) { return std::atan2(x, y); } };
struct Hypot { template <class T> static T apply(T x, T y) { return std::hypot(x, y); } };
struct NextAfter { template <class T> static T apply(T x, T y) { return std::nextafter(x, y); } };
// clang-format on

// As Python divides: rounded down, and the remainder has the sign of the divisor (PEP 238, CPython's float_divmod).
struct Remainder {
  template <class T>
  static T apply(T x, T y) {
    if (std::isinf(y) && std::isfinite(x)) return x == T{0} ? std::copysign(T{0}, y) : (x < 0) != (y < 0) ? y : x;
    T rest = std::fmod(x, y);
    if (rest == T{0}) return std::copysign(T{0}, y);
    if ((rest < 0) != (y < 0)) rest += y;
    return rest;
  }
};
struct FloorDivide {
  template <class T>
  static T apply(T x, T y) {
    if (y == T{0} || !std::isfinite(x) || !std::isfinite(y)) {
      if (std::isinf(x) || y == T{0} || x != x || y != y) return std::isinf(x) && std::isinf(y) ? x - x : x / y;
      return x == T{0} ? x / y : (x < 0) != (y < 0) ? T{-1} : T{0};  // a finite number by an infinite one
    }
    const T rest = std::fmod(x, y);
    T quotient = (x - rest) / y;
    if (rest != T{0} && (rest < 0) != (y < 0)) quotient -= T{1};
    if (quotient == T{0}) return std::copysign(T{0}, x / y);
    const T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T{1} : whole;
  }
};
struct LogAddExp {
  template <class T>
  static T apply(T x, T y) {
    if (x == y) return x + static_cast<T>(0.693147180559945309417);
    const T high = x > y || x != x ? x : y;
    return high + std::log1p(std::exp(-std::abs(x - y)));
  }
};

template <typename T>
Kernel find_one(Op op) {
  switch (op) {
    case Op::kExp: return vector_loop<T, Exp>;
    case Op::kLog: return vector_loop<T, Log>;
    case Op::kLog2: return vector_loop<T, Log2>;
    case Op::kLog10: return vector_loop<T, Log10>;
    case Op::kSin: return vector_loop<T, Sin>;
    case Op::kCos: return vector_loop<T, Cos>;
    case Op::kTanh: return vector_loop<T, Tanh>;
    case Op::kAtan: return vector_loop<T, Atan>;
    case Op::kSigmoid: return vector_loop<T, Sigmoid>;
    case Op::kExp2: return scalar_loop<T, Exp2>;
    case Op::kExpm1: return scalar_loop<T, Expm1>;
    case Op::kLog1p: return scalar_loop<T, Log1p>;
    case Op::kTan: return scalar_loop<T, Tan>;
    case Op::kAsin: return scalar_loop<T, Asin>;
    case Op::kAcos: return scalar_loop<T, Acos>;
    case Op::kSinh: return scalar_loop<T, Sinh>;
    case Op::kCosh: return scalar_loop<T, Cosh>;
    case Op::kAsinh: return scalar_loop<T, Asinh>;
    case Op::kAcosh: return scalar_loop<T, Acosh>;
    case Op::kAtanh: return scalar_loop<T, Atanh>;
    case Op::kErf: return scalar_loop<T, Erf>;
    case Op::kPow: return scalar_loop2<T, Pow>;
    case Op::kAtan2: return scalar_loop2<T, Atan2>;
    case Op::kHypot: return scalar_loop2<T, Hypot>;
    case Op::kNextAfter: return scalar_loop2<T, NextAfter>;
    case Op::kRemainder: return scalar_loop2<T, Remainder>;
    case Op::kFloorDivide: return scalar_loop2<T, FloorDivide>;
    case Op::kLogAddExp: return scalar_loop2<T, LogAddExp>;
    default: return nullptr;
  }
}

Kernel find_math_here(Op op, Compute type) {
  return type == Compute::kF32 ? find_one<float>(op) : find_one<double>(op);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_math_here);

Kernel find_math_kernel(Op op, Compute type) { return HWY_DYNAMIC_DISPATCH(find_math_here)(op, type); }

}  // namespace ebb::array
#endif
