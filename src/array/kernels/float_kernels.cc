// Arithmetic, comparison, rounding and functions of f32 and f64 tiles: plain loops, vectorised for each instruction
// set; of some functions vector versions (functions.inc), of the rest the C library's.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/float_kernels.cc"
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
#include "array/kernels/table.inc"

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

// As Python divides: rounded down, and the remainder has the sign of the divisor (PEP 238, CPython's float_divmod).
template <class T>
T remainder_of(T x, T y) {
  if (std::isinf(y) && std::isfinite(x)) return x == T{0} ? std::copysign(T{0}, y) : (x < 0) != (y < 0) ? y : x;
  T rest = std::fmod(x, y);
  if (rest == T{0}) return std::copysign(T{0}, y);
  if ((rest < 0) != (y < 0)) rest += y;
  return rest;
}
template <class T>
T floor_divide(T x, T y) {
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

template <class T>
T log_add_exp(T x, T y) {
  if (x == y) return x + static_cast<T>(0.693147180559945309417);
  const T high = x > y || x != x ? x : y;
  return high + std::log1p(std::exp(-std::abs(x - y)));
}

// kGreater and kGreaterEqual are kLess and kLessEqual with the operands exchanged.
template <typename T>
constexpr Entry kTable[] = {{Op::kNegative, unary<T>([](T x) { return -x; })},
                            {Op::kAbs, unary<T>([](T x) { return std::abs(x); })},
                            {Op::kSign, unary<T>([](T x) { return x > T{0}   ? T{1}
                                                                  : x < T{0} ? T{-1}
                                                                             : x + T{0}; })},
                            {Op::kSquare, unary<T>([](T x) { return x * x; })},
                            {Op::kSqrt, unary<T>([](T x) { return std::sqrt(x); })},
                            {Op::kReciprocal, unary<T>([](T x) { return T{1} / x; })},
                            {Op::kFloor, unary<T>([](T x) { return std::floor(x); })},
                            {Op::kCeil, unary<T>([](T x) { return std::ceil(x); })},
                            {Op::kTrunc, unary<T>([](T x) { return std::trunc(x); })},
                            {Op::kRound, unary<T>([](T x) { return std::nearbyint(x); })},
                            {Op::kIsNan, unary<T>([](T x) { return x != x; })},
                            {Op::kIsInf, unary<T>([](T x) { return std::abs(x) > std::numeric_limits<T>::max(); })},
                            {Op::kIsFinite, unary<T>([](T x) { return std::abs(x) <= std::numeric_limits<T>::max(); })},
                            {Op::kSignBit, unary<T>([](T x) { return std::signbit(x); })},
                            {Op::kLogicalNot, unary<T>([](T x) { return x == T{0}; })},
                            {Op::kExp, vector_loop<T, Exp>},
                            {Op::kLog, vector_loop<T, Log>},
                            {Op::kLog2, vector_loop<T, Log2>},
                            {Op::kLog10, vector_loop<T, Log10>},
                            {Op::kSin, vector_loop<T, Sin>},
                            {Op::kCos, vector_loop<T, Cos>},
                            {Op::kTanh, vector_loop<T, Tanh>},
                            {Op::kAtan, vector_loop<T, Atan>},
                            {Op::kSigmoid, vector_loop<T, Sigmoid>},
                            {Op::kExp2, unary<T>([](T x) { return std::exp2(x); })},
                            {Op::kExpm1, unary<T>([](T x) { return std::expm1(x); })},
                            {Op::kLog1p, unary<T>([](T x) { return std::log1p(x); })},
                            {Op::kTan, unary<T>([](T x) { return std::tan(x); })},
                            {Op::kAsin, unary<T>([](T x) { return std::asin(x); })},
                            {Op::kAcos, unary<T>([](T x) { return std::acos(x); })},
                            {Op::kSinh, unary<T>([](T x) { return std::sinh(x); })},
                            {Op::kCosh, unary<T>([](T x) { return std::cosh(x); })},
                            {Op::kAsinh, unary<T>([](T x) { return std::asinh(x); })},
                            {Op::kAcosh, unary<T>([](T x) { return std::acosh(x); })},
                            {Op::kAtanh, unary<T>([](T x) { return std::atanh(x); })},
                            {Op::kErf, unary<T>([](T x) { return std::erf(x); })},
                            {Op::kAdd, binary<T>([](T x, T y) { return x + y; })},
                            {Op::kSubtract, binary<T>([](T x, T y) { return x - y; })},
                            {Op::kMultiply, binary<T>([](T x, T y) { return x * y; })},
                            {Op::kDivide, binary<T>([](T x, T y) { return x / y; })},
                            {Op::kMaximum, binary<T>([](T x, T y) { return x > y || x != x ? x : y; })},
                            {Op::kMinimum, binary<T>([](T x, T y) { return x < y || x != x ? x : y; })},
                            {Op::kCopySign, binary<T>([](T x, T y) { return std::copysign(x, y); })},
                            {Op::kEqual, binary<T>([](T x, T y) { return x == y; })},
                            {Op::kNotEqual, binary<T>([](T x, T y) { return x != y; })},
                            {Op::kLess, binary<T>([](T x, T y) { return x < y; })},
                            {Op::kLessEqual, binary<T>([](T x, T y) { return x <= y; })},
                            {Op::kPow, binary<T>([](T x, T y) { return std::pow(x, y); })},
                            {Op::kAtan2, binary<T>([](T x, T y) { return std::atan2(x, y); })},
                            {Op::kHypot, binary<T>([](T x, T y) { return std::hypot(x, y); })},
                            {Op::kNextAfter, binary<T>([](T x, T y) { return std::nextafter(x, y); })},
                            {Op::kRemainder, binary<T>([](T x, T y) { return remainder_of(x, y); })},
                            {Op::kFloorDivide, binary<T>([](T x, T y) { return floor_divide(x, y); })},
                            {Op::kLogAddExp, binary<T>([](T x, T y) { return log_add_exp(x, y); })},
                            {Op::kWhere, where_loop<T>}};

Kernel find_here(Op op, Compute type) {
  return type == Compute::kF32 ? find_in(kTable<float>, op) : find_in(kTable<double>, op);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_here);

Kernel find_float_kernel(Op op, Compute type) { return HWY_DYNAMIC_DISPATCH(find_here)(op, type); }

}  // namespace ebb::array
#endif
