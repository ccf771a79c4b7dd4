// The table of operators. In a body, T is the type of the operands x and y, S the signed and U the unsigned integer of
// 64 bits; a body is an expression, or a block in braces.
#include "array/source/operators.h"

#include "ebb/status.h"

namespace ebb::array {
namespace {

// How the integers, and the floats, do it; null: they do not, or `any` says it for all.
struct Body {
  Op op;
  const char* floats;
  const char* integers;
};

constexpr const char* kRemainderOfFloats = R"({
  if (isinf(y) && isfinite(x)) return x == 0 ? copysign((T)0, y) : (x < 0) != (y < 0) ? y : x;
  T rest = fmod(x, y);
  if (rest == 0) return copysign((T)0, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
})";
constexpr const char* kFloorDivideOfFloats = R"({
  if (y == 0 || !isfinite(x) || !isfinite(y)) {
    if (isinf(x) || y == 0 || x != x || y != y) return isinf(x) && isinf(y) ? x - x : x / y;
    return x == 0 ? x / y : (x < 0) != (y < 0) ? (T)-1 : (T)0;
  }
  T rest = fmod(x, y);
  T quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= (T)1;
  if (quotient == 0) return copysign((T)0, x / y);
  T whole = floor(quotient);
  return quotient - whole > (T)0.5f ? whole + (T)1 : whole;
})";
constexpr const char* kLogAddExp = R"({
  if (x == y) return x + log((T)2);
  T high = x > y || x != x ? x : y;
  return high + log1p(exp(-fabs(x - y)));
})";
// Without sign where it is the same bits; kept signed or unsigned by T.
constexpr const char* kFloorDivideOfIntegers = R"({
  if (y == 0) return 0;
  if (y == (T)-1 && y < 0) return (T)(0 - (U)x);
  T quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
})";
constexpr const char* kRemainderOfIntegers = R"({
  if (y == 0 || (y == (T)-1 && y < 0)) return 0;
  T rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
})";
constexpr const char* kPowOfIntegers = R"({
  if (y < 0) return x == 1 ? 1 : x == (T)-1 ? ((U)y & 1 ? (T)-1 : 1) : 0;
  U result = 1, base = (U)x;
  for (U rest = (U)y; rest != 0; rest >>= 1, base *= base) {
    if (rest & 1) result *= base;
  }
  return (T)result;
})";

constexpr Body kBodies[] = {
    {Op::kNegative, "-x", "(T)(0 - (U)x)"},
    {Op::kAbs, "fabs(x)", "x < 0 ? (T)(0 - (U)x) : x"},
    {Op::kSign, "x > 0 ? (T)1 : x < 0 ? (T)-1 : x + (T)0", "x > 0 ? 1 : x < 0 ? (T)-1 : 0"},
    {Op::kSquare, "x * x", "(T)((U)x * (U)x)"},
    {Op::kSqrt, "sqrt(x)", nullptr},
    {Op::kReciprocal, "(T)1 / x", nullptr},
    {Op::kExp, "exp(x)", nullptr},
    {Op::kExp2, "exp2(x)", nullptr},
    {Op::kExpm1, "expm1(x)", nullptr},
    {Op::kLog, "log(x)", nullptr},
    {Op::kLog2, "log2(x)", nullptr},
    {Op::kLog10, "log10(x)", nullptr},
    {Op::kLog1p, "log1p(x)", nullptr},
    {Op::kSin, "sin(x)", nullptr},
    {Op::kCos, "cos(x)", nullptr},
    {Op::kTan, "tan(x)", nullptr},
    {Op::kAsin, "asin(x)", nullptr},
    {Op::kAcos, "acos(x)", nullptr},
    {Op::kAtan, "atan(x)", nullptr},
    {Op::kSinh, "sinh(x)", nullptr},
    {Op::kCosh, "cosh(x)", nullptr},
    {Op::kTanh, "tanh(x)", nullptr},
    {Op::kAsinh, "asinh(x)", nullptr},
    {Op::kAcosh, "acosh(x)", nullptr},
    {Op::kAtanh, "atanh(x)", nullptr},
    {Op::kErf, "erf(x)", nullptr},
    {Op::kSigmoid, "(T)1 / ((T)1 + exp(-x))", nullptr},
    {Op::kFloor, "floor(x)", "x"},
    {Op::kCeil, "ceil(x)", "x"},
    {Op::kTrunc, "trunc(x)", "x"},
    {Op::kRound, "rint(x)", "x"},
    {Op::kIsNan, "x != x", "0"},
    {Op::kIsInf, "isinf(x) != 0", "0"},
    {Op::kIsFinite, "isfinite(x) != 0", "1"},
    {Op::kSignBit, "signbit(x) != 0", "x < 0"},
    {Op::kLogicalNot, "x == 0", "x == 0"},
    {Op::kBitwiseNot, nullptr, "~x"},
    {Op::kAdd, "x + y", "(T)((U)x + (U)y)"},
    {Op::kSubtract, "x - y", "(T)((U)x - (U)y)"},
    {Op::kMultiply, "x * y", "(T)((U)x * (U)y)"},
    {Op::kDivide, "x / y", nullptr},
    {Op::kFloorDivide, kFloorDivideOfFloats, kFloorDivideOfIntegers},
    {Op::kRemainder, kRemainderOfFloats, kRemainderOfIntegers},
    {Op::kPow, "pow(x, y)", kPowOfIntegers},
    {Op::kAtan2, "atan2(x, y)", nullptr},
    {Op::kHypot, "hypot(x, y)", nullptr},
    {Op::kMaximum, "x > y || x != x ? x : y", "x > y ? x : y"},
    {Op::kMinimum, "x < y || x != x ? x : y", "x < y ? x : y"},
    {Op::kCopySign, "copysign(x, y)", nullptr},
    {Op::kNextAfter, "nextafter(x, y)", nullptr},
    {Op::kLogAddExp, kLogAddExp, nullptr},
    {Op::kBitwiseAnd, nullptr, "x & y"},
    {Op::kBitwiseOr, nullptr, "x | y"},
    {Op::kBitwiseXor, nullptr, "x ^ y"},
    {Op::kShiftLeft, nullptr, "(U)y > 63 ? 0 : (T)((U)x << y)"},
    {Op::kShiftRight, nullptr, "(U)y <= 63 ? x >> y : x < 0 ? (T)-1 : 0"},
    {Op::kEqual, "x == y", "x == y"},
    {Op::kNotEqual, "x != y", "x != y"},
    {Op::kLess, "x < y", "x < y"},
    {Op::kLessEqual, "x <= y", "x <= y"},
    {Op::kGreater, "x > y", "x > y"},
    {Op::kGreaterEqual, "x >= y", "x >= y"},
    {Op::kWhere, "c != 0 ? x : y", "c != 0 ? x : y"},
};

// Of bool, those that are not as for integers.
const char* body_of_bool(Op op) {
  switch (op) {
    case Op::kBitwiseNot: return "x == 0";
    case Op::kMaximum: return "x | y";
    case Op::kMinimum: return "x & y";
    default: return nullptr;
  }
}

const char* body_of(Op op, Compute type) {
  if (type == Compute::kBool && body_of_bool(op) != nullptr) return body_of_bool(op);
  for (const Body& body : kBodies) {
    if (body.op != op) continue;
    const char* text = type == Compute::kF32 || type == Compute::kF64 ? body.floats : body.integers;
    if (text != nullptr) return text;
  }
  throw Error(Status::kInvalid, std::string("kernel_source: there is no ") + name(op) + " of " + source_name(type));
}

bool gives_bool(Op op) {
  switch (op) {
    case Op::kIsNan:
    case Op::kIsInf:
    case Op::kIsFinite:
    case Op::kSignBit:
    case Op::kLogicalNot:
    case Op::kEqual:
    case Op::kNotEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual: return true;
    default: return false;
  }
}

std::string define(const char* type, const char* result, const std::string& name_and_parameters, const char* body) {
  const std::string text = body[0] == '{' ? body : std::string("{ return ") + body + "; }";
  return std::string("#define T ") + type + "\nEBB_FUNCTION " + result + " " + name_and_parameters + " " + text +
         "\n#undef T\n";
}

// As in convert_kernels.cc: floats saturate, NaN gives 0.
constexpr const char* kToSigned = R"({
  if (!(x >= (T)-0x1p63f)) return x != x ? 0 : (S)((U)1 << 63);
  return x >= (T)0x1p63f ? (S)(((U)1 << 63) - 1) : (S)x;
})";
constexpr const char* kToUnsigned = R"({
  if (!(x >= 0)) return x != x || x <= (T)-0x1p63f ? 0 : (U)(S)x;
  return x >= (T)0x1p64f ? ~(U)0 : (U)x;
})";
constexpr const char* kToOdd = R"({
  const f32 nearest = (f32)x;
  const u32 bits = EBB_BITS(nearest);
  if ((T)nearest == x || x != x || (bits & 1)) return nearest;
  return EBB_FLOAT(fabs((T)nearest) > fabs(x) ? bits - 1 : bits + 1);
})";

const char* cast_body(Compute from, Compute to, bool narrow) {
  const bool is_float_source = from == Compute::kF32 || from == Compute::kF64;
  if (to == Compute::kBool) return "x != 0";
  if (is_float_source && to == Compute::kI64) return kToSigned;
  if (is_float_source && to == Compute::kU64) return kToUnsigned;
  if (from == Compute::kF64 && to == Compute::kF32 && narrow) return kToOdd;
  return nullptr;
}

}  // namespace

const char* source_name(Compute type) {
  switch (type) {
    case Compute::kBool: return "u8";
    case Compute::kI64: return "i64";
    case Compute::kU64: return "u64";
    case Compute::kF32: return "f32";
    case Compute::kF64: return "f64";
  }
  return "";
}

std::string function_name(Op op, Compute type) { return std::string("op_") + name(op) + "_" + source_name(type); }

std::string function_source(Op op, Compute type) {
  // Every function has all three parameters, so that calls need no table of arities.
  const std::string parameters = op == Op::kWhere ? "(u8 c, T x, T y)" : "(T x, T y)";
  return define(source_name(type), gives_bool(op) ? "u8" : source_name(type), function_name(op, type) + parameters,
                body_of(op, type));
}

std::string cast_name(Compute from, Compute to, bool narrow) {
  return std::string("cast_") + source_name(from) + "_" + source_name(to) + (narrow ? "_odd" : "");
}

std::string cast_source(Compute from, Compute to, bool narrow) {
  const std::string plain = std::string("(") + source_name(to) + ")x";
  const char* body = cast_body(from, to, narrow);
  return define(source_name(from), source_name(to), cast_name(from, to, narrow) + "(T x)",
                body != nullptr ? body : plain.c_str());
}

const char* opencl_prelude() {
  return R"(#pragma OPENCL FP_CONTRACT OFF
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef long i64;
typedef float f32;
#define EBB_FUNCTION static
#define EBB_KERNEL __kernel
#define EBB_GLOBAL __global
#define EBB_INDEX ((i64)get_global_id(0))
#define EBB_BITS(x) as_uint(x)
#define EBB_FLOAT(x) as_float(x)
)";
}

const char* cuda_prelude() {
  return R"(typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
#define EBB_FUNCTION static __device__ __forceinline__
#define EBB_KERNEL extern "C" __global__
#define EBB_GLOBAL
#define EBB_INDEX ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define EBB_BITS(x) __float_as_uint(x)
#define EBB_FLOAT(x) __uint_as_float(x)
)";
}

const char* common_prelude() {
  return R"(#define S i64
#define U u64
EBB_FUNCTION f32 f16_value(u16 bits) {
  const u32 sign = (u32)(bits & 0x8000) << 16, magnitude = (u32)(bits & 0x7FFF) << 13;
  const u32 finite = EBB_BITS(EBB_FLOAT(magnitude) * 0x1p112f), special = magnitude | 0x7F800000u;
  return EBB_FLOAT(sign | ((bits & 0x7C00) == 0x7C00 ? special : finite));
}
EBB_FUNCTION u16 f16_bits(f32 value) {
  const u32 bits = EBB_BITS(value), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
  const u32 normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1)) >> 13;
  const u32 subnormal = EBB_BITS(EBB_FLOAT(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) - 0x3F000000u;
  u32 result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477FF000u ? 0x7C00u : result;
  result = magnitude > 0x7F800000u ? 0x7E00u : result;
  return (u16)(sign | result);
}
EBB_FUNCTION f32 bf16_value(u16 bits) { return EBB_FLOAT((u32)bits << 16); }
EBB_FUNCTION u16 bf16_bits(f32 value) {
  const u32 bits = EBB_BITS(value);
  const u32 rounded = (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16, quiet = (bits >> 16) | 0x40u;
  return (u16)((bits & 0x7FFFFFFF) > 0x7F800000u ? quiet : rounded);
}
)";
}

}  // namespace ebb::array
