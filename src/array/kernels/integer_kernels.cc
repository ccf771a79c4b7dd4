// Arithmetic of i64, u64 and bool tiles. Sums, differences and products wrap: they are computed without sign.
//
// Division by zero gives 0, as in NumPy; a shift by the width or more gives 0, or -1 of a negative number to the right.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/integer_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/highway.h>

#include <limits>

#include "array/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

using I = std::int64_t;
using U = std::uint64_t;
using Flag = std::uint8_t;

template <typename T, typename F>
void one(const void* a, const void*, const void*, void* out, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  auto* o = static_cast<decltype(F::apply(T{}))*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = F::apply(x[i]);
}

template <typename T, typename F>
void two(const void* a, const void* b, const void*, void* out, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  auto* o = static_cast<decltype(F::apply(T{}, T{}))*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = F::apply(x[i], y[i]);
}

template <typename T>
void where_loop(const void* a, const void* b, const void* c, void* out, std::size_t n) {
  const auto* mask = static_cast<const Flag*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  T* o = static_cast<T*>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = mask[i] ? x[i] : y[i];
}

// clang-format off
struct Negative { static U apply(U x) { return U{0} - x; } };
struct Abs { static I apply(I x) { return x < 0 ? static_cast<I>(U{0} - static_cast<U>(x)) : x; } };
struct Same { template <class T> static T apply(T x) { return x; } };
struct Sign { static I apply(I x) { return x > 0 ? 1 : x < 0 ? -1 : 0; } static U apply(U x) { return x != 0; } };
struct Square { static U apply(U x) { return x * x; } };
struct BitwiseNot { static U apply(U x) { return ~x; } };
struct LogicalNot { template <class T> static Flag apply(T x) { return x == 0; } };
struct SignBit { static Flag apply(I x) { return x < 0; } };
struct No { template <class T> static Flag apply(T) { return 0; } };
struct Yes { template <class T> static Flag apply(T) { return 1; } };
struct Add { static U apply(U x, U y) { return x + y; } };
struct Subtract { static U apply(U x, U y) { return x - y; } };
struct Multiply { static U apply(U x, U y) { return x * y; } };
struct And { template <class T> static T apply(T x, T y) { return x & y; } };
struct Or { template <class T> static T apply(T x, T y) { return x | y; } };
struct Xor { template <class T> static T apply(T x, T y) { return x ^ y; } };
struct Maximum { template <class T> static T apply(T x, T y) { return x > y ? x : y; } };
struct Minimum { template <class T> static T apply(T x, T y) { return x < y ? x : y; } };
struct Equal { template <class T> static Flag apply(T x, T y) { return x == y; } };
struct NotEqual { template <class T> static Flag apply(T x, T y) { return x != y; } };
struct Less { template <class T> static Flag apply(T x, T y) { return x < y; } };
struct LessEqual { template <class T> static Flag apply(T x, T y) { return x <= y; } };
// clang-format on

// Rounded down, as in Python. The smallest number by -1 wraps to itself.
struct FloorDivide {
  static U apply(U x, U y) { return y == 0 ? 0 : x / y; }
  static I apply(I x, I y) {
    if (y == 0) return 0;
    if (y == -1) return static_cast<I>(U{0} - static_cast<U>(x));
    const I quotient = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
  }
};
struct Remainder {
  static U apply(U x, U y) { return y == 0 ? 0 : x % y; }
  static I apply(I x, I y) {
    if (y == 0 || y == -1) return 0;
    const I rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
};
// Negative exponents give 0, but for bases 1 and -1.
struct Pow {
  static U apply(U x, U y) {
    U result = 1;
    for (; y != 0; y >>= 1, x *= x) {
      if (y & 1) result *= x;
    }
    return result;
  }
  static I apply(I x, I y) {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    return static_cast<I>(apply(static_cast<U>(x), static_cast<U>(y)));
  }
};
struct ShiftLeft {
  static U apply(U x, U y) { return y > 63 ? 0 : x << y; }
  static I apply(I x, I y) { return static_cast<I>(apply(static_cast<U>(x), static_cast<U>(y))); }
};
struct ShiftRight {
  static U apply(U x, U y) { return y > 63 ? 0 : x >> y; }
  static I apply(I x, I y) { return x >> (static_cast<U>(y) > 63 ? 63 : y); }
};

// What signed and unsigned have in common, because it wraps or looks only at bits.
Kernel find_wrapping(Op op) {
  switch (op) {
    case Op::kNegative: return one<U, Negative>;
    case Op::kSquare: return one<U, Square>;
    case Op::kBitwiseNot: return one<U, BitwiseNot>;
    case Op::kAdd: return two<U, Add>;
    case Op::kSubtract: return two<U, Subtract>;
    case Op::kMultiply: return two<U, Multiply>;
    case Op::kBitwiseAnd: return two<U, And>;
    case Op::kBitwiseOr: return two<U, Or>;
    case Op::kBitwiseXor: return two<U, Xor>;
    case Op::kEqual: return two<U, Equal>;
    case Op::kNotEqual: return two<U, NotEqual>;
    case Op::kLogicalNot: return one<U, LogicalNot>;
    case Op::kWhere: return where_loop<U>;
    case Op::kFloor:
    case Op::kCeil:
    case Op::kTrunc:
    case Op::kRound: return one<U, Same>;
    case Op::kIsNan:
    case Op::kIsInf: return one<U, No>;
    case Op::kIsFinite: return one<U, Yes>;
    default: return nullptr;
  }
}

template <typename T>
Kernel find_signed(Op op) {
  switch (op) {
    case Op::kSign: return one<T, Sign>;
    case Op::kFloorDivide: return two<T, FloorDivide>;
    case Op::kRemainder: return two<T, Remainder>;
    case Op::kPow: return two<T, Pow>;
    case Op::kShiftLeft: return two<T, ShiftLeft>;
    case Op::kShiftRight: return two<T, ShiftRight>;
    case Op::kMaximum: return two<T, Maximum>;
    case Op::kMinimum: return two<T, Minimum>;
    case Op::kLess: return two<T, Less>;
    case Op::kLessEqual: return two<T, LessEqual>;
    default: return find_wrapping(op);
  }
}

Kernel find_bool(Op op) {
  switch (op) {
    case Op::kLogicalNot:
    case Op::kBitwiseNot: return one<Flag, LogicalNot>;
    case Op::kBitwiseAnd:
    case Op::kMinimum: return two<Flag, And>;
    case Op::kBitwiseOr:
    case Op::kMaximum: return two<Flag, Or>;
    case Op::kBitwiseXor: return two<Flag, Xor>;
    case Op::kEqual: return two<Flag, Equal>;
    case Op::kNotEqual: return two<Flag, NotEqual>;
    case Op::kLess: return two<Flag, Less>;
    case Op::kLessEqual: return two<Flag, LessEqual>;
    case Op::kIsNan:
    case Op::kIsInf: return one<Flag, No>;
    case Op::kIsFinite: return one<Flag, Yes>;
    case Op::kWhere: return where_loop<Flag>;
    default: return nullptr;
  }
}

Kernel find_integer_here(Op op, Compute type) {
  if (type == Compute::kBool) return find_bool(op);
  if (type == Compute::kU64) {
    return op == Op::kAbs ? one<U, Same> : op == Op::kSignBit ? one<U, No> : find_signed<U>(op);
  }
  return op == Op::kAbs ? one<I, Abs> : op == Op::kSignBit ? one<I, SignBit> : find_signed<I>(op);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_integer_here);

Kernel find_integer_kernel(Op op, Compute type) { return HWY_DYNAMIC_DISPATCH(find_integer_here)(op, type); }

}  // namespace ebb::array
#endif
