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

#include "array/kernels/table.inc"

using I = std::int64_t;
using U = std::uint64_t;

// Rounded down, as in Python. The smallest number by -1 wraps to itself.
U floor_divide(U x, U y) { return y == 0 ? 0 : x / y; }
I floor_divide(I x, I y) {
  if (y == 0) return 0;
  if (y == -1) return static_cast<I>(U{0} - static_cast<U>(x));
  const I quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}
U remainder_of(U x, U y) { return y == 0 ? 0 : x % y; }
I remainder_of(I x, I y) {
  if (y == 0 || y == -1) return 0;
  const I rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
// Negative exponents give 0, but for bases 1 and -1.
U power(U x, U y) {
  U result = 1;
  for (; y != 0; y >>= 1, x *= x) {
    if (y & 1) result *= x;
  }
  return result;
}
I power(I x, I y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
  return static_cast<I>(power(static_cast<U>(x), static_cast<U>(y)));
}

// What signed and unsigned have in common, because it wraps or looks only at bits.
constexpr Entry kWrapping[] = {{Op::kNegative, unary<U>([](U x) { return U{0} - x; })},
                               {Op::kSquare, unary<U>([](U x) { return x * x; })},
                               {Op::kBitwiseNot, unary<U>([](U x) { return ~x; })},
                               {Op::kLogicalNot, unary<U>([](U x) { return x == 0; })},
                               {Op::kFloor, unary<U>([](U x) { return x; })},
                               {Op::kCeil, unary<U>([](U x) { return x; })},
                               {Op::kTrunc, unary<U>([](U x) { return x; })},
                               {Op::kRound, unary<U>([](U x) { return x; })},
                               {Op::kIsNan, unary<U>([](U) { return false; })},
                               {Op::kIsInf, unary<U>([](U) { return false; })},
                               {Op::kIsFinite, unary<U>([](U) { return true; })},
                               {Op::kShiftLeft, binary<U>([](U x, U y) { return y > 63 ? U{0} : x << y; })},
                               {Op::kAdd, binary<U>([](U x, U y) { return x + y; })},
                               {Op::kSubtract, binary<U>([](U x, U y) { return x - y; })},
                               {Op::kMultiply, binary<U>([](U x, U y) { return x * y; })},
                               {Op::kBitwiseAnd, binary<U>([](U x, U y) { return x & y; })},
                               {Op::kBitwiseOr, binary<U>([](U x, U y) { return x | y; })},
                               {Op::kBitwiseXor, binary<U>([](U x, U y) { return x ^ y; })},
                               {Op::kEqual, binary<U>([](U x, U y) { return x == y; })},
                               {Op::kNotEqual, binary<U>([](U x, U y) { return x != y; })},
                               {Op::kWhere, where_loop<U>}};

template <typename T>
constexpr Entry kOrdered[] = {{Op::kFloorDivide, binary<T>([](T x, T y) { return floor_divide(x, y); })},
                              {Op::kRemainder, binary<T>([](T x, T y) { return remainder_of(x, y); })},
                              {Op::kPow, binary<T>([](T x, T y) { return power(x, y); })},
                              {Op::kMaximum, binary<T>([](T x, T y) { return x > y ? x : y; })},
                              {Op::kMinimum, binary<T>([](T x, T y) { return x < y ? x : y; })},
                              {Op::kLess, binary<T>([](T x, T y) { return x < y; })},
                              {Op::kLessEqual, binary<T>([](T x, T y) { return x <= y; })}};

constexpr Entry kSigned[] = {
    {Op::kAbs, unary<I>([](I x) { return x < 0 ? U{0} - static_cast<U>(x) : static_cast<U>(x); })},
    {Op::kSign, unary<I>([](I x) { return I{x > 0} - I{x < 0}; })},
    {Op::kSignBit, unary<I>([](I x) { return x < 0; })},
    {Op::kShiftRight, binary<I>([](I x, I y) { return x >> (static_cast<U>(y) > 63 ? 63 : y); })}};

constexpr Entry kUnsigned[] = {{Op::kAbs, unary<U>([](U x) { return x; })},
                               {Op::kSign, unary<U>([](U x) { return U{x != 0}; })},
                               {Op::kSignBit, unary<U>([](U) { return false; })},
                               {Op::kShiftRight, binary<U>([](U x, U y) { return y > 63 ? U{0} : x >> y; })}};

constexpr Entry kBool[] = {{Op::kLogicalNot, unary<Flag>([](Flag x) { return x == 0; })},
                           {Op::kBitwiseNot, unary<Flag>([](Flag x) { return x == 0; })},
                           {Op::kBitwiseAnd, binary<Flag>([](Flag x, Flag y) { return static_cast<Flag>(x & y); })},
                           {Op::kMinimum, binary<Flag>([](Flag x, Flag y) { return static_cast<Flag>(x & y); })},
                           {Op::kBitwiseOr, binary<Flag>([](Flag x, Flag y) { return static_cast<Flag>(x | y); })},
                           {Op::kMaximum, binary<Flag>([](Flag x, Flag y) { return static_cast<Flag>(x | y); })},
                           {Op::kBitwiseXor, binary<Flag>([](Flag x, Flag y) { return static_cast<Flag>(x ^ y); })},
                           {Op::kEqual, binary<Flag>([](Flag x, Flag y) { return x == y; })},
                           {Op::kNotEqual, binary<Flag>([](Flag x, Flag y) { return x != y; })},
                           {Op::kLess, binary<Flag>([](Flag x, Flag y) { return x < y; })},
                           {Op::kLessEqual, binary<Flag>([](Flag x, Flag y) { return x <= y; })},
                           {Op::kIsNan, unary<Flag>([](Flag) { return false; })},
                           {Op::kIsInf, unary<Flag>([](Flag) { return false; })},
                           {Op::kIsFinite, unary<Flag>([](Flag) { return true; })},
                           {Op::kWhere, where_loop<Flag>}};

template <typename T>
Kernel find_number(const Entry (&own)[4], Op op) {
  if (const Kernel found = find_in(own, op)) return found;
  const Kernel found = find_in(kOrdered<T>, op);
  return found != nullptr ? found : find_in(kWrapping, op);
}

Kernel find_integer_here(Op op, Compute type) {
  if (type == Compute::kBool) return find_in(kBool, op);
  return type == Compute::kU64 ? find_number<U>(kUnsigned, op) : find_number<I>(kSigned, op);
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
