// What arrays and the graph under them have in common: values that know no array. Included by ebb/array.h, which says
// what they mean.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/dtype.h"
#include "ebb/units.h"

namespace ebb {

using Dims = std::vector<std::int64_t>;  // sizes, strides in elements, or dimension numbers (negative: from the end)

enum class Op : std::uint8_t {
  // Unary.
  kNegative,
  kAbs,
  kSign,
  kSquare,
  kSqrt,
  kReciprocal,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kSigmoid,
  kFloor,
  kCeil,
  kTrunc,
  kRound,
  kIsNan,
  kIsInf,
  kIsFinite,
  kSignBit,
  kLogicalNot,
  kBitwiseNot,
  kCast,
  // Binary.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPow,
  kAtan2,
  kHypot,
  kMaximum,
  kMinimum,
  kCopySign,
  kNextAfter,
  kLogAddExp,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  // Ternary.
  kWhere
};
inline constexpr int kOps = static_cast<int>(Op::kWhere) + 1;
const char* name(Op op);

enum class Reduce : std::uint8_t { kSum, kProd, kMin, kMax, kAny, kAll, kArgMin, kArgMax };

// Languages that a pass can be written in: see kernel_source().
enum class Dialect : std::uint8_t { kOpenCl, kCuda };

// Limits on what one expression may collect before its operands are evaluated. For tests and for tuning.
struct CombineLimits {
  std::uint32_t operators = 48;  // in one tree, shared parts counted as often as they are used
  std::uint32_t arguments = 12;  // arrays that it reads
  // Memory of its arguments, each counted once, from the second operator on. Four arrays of one size are always
  // allowed.
  std::uint64_t held_bytes = 256 * kMiB;
};

struct CacheStats {
  std::uint64_t hits = 0, misses = 0, evictions = 0, entries = 0, capacity = 0;
};

}  // namespace ebb
