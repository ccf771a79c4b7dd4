// The table, in the order of Op.
#include "array/graph/op_info.h"

namespace ebb {
namespace array {
namespace {

constexpr OpInfo kTable[kOps] = {{"negative", 1, Takes::kNumbers, false},
                                 {"abs", 1, Takes::kNumbers, false},
                                 {"sign", 1, Takes::kNumbers, false},
                                 {"square", 1, Takes::kNumbers, false},
                                 {"sqrt", 1, Takes::kFloats, false},
                                 {"reciprocal", 1, Takes::kFloats, false},
                                 {"exp", 1, Takes::kFloats, false},
                                 {"exp2", 1, Takes::kFloats, false},
                                 {"expm1", 1, Takes::kFloats, false},
                                 {"log", 1, Takes::kFloats, false},
                                 {"log2", 1, Takes::kFloats, false},
                                 {"log10", 1, Takes::kFloats, false},
                                 {"log1p", 1, Takes::kFloats, false},
                                 {"sin", 1, Takes::kFloats, false},
                                 {"cos", 1, Takes::kFloats, false},
                                 {"tan", 1, Takes::kFloats, false},
                                 {"asin", 1, Takes::kFloats, false},
                                 {"acos", 1, Takes::kFloats, false},
                                 {"atan", 1, Takes::kFloats, false},
                                 {"sinh", 1, Takes::kFloats, false},
                                 {"cosh", 1, Takes::kFloats, false},
                                 {"tanh", 1, Takes::kFloats, false},
                                 {"asinh", 1, Takes::kFloats, false},
                                 {"acosh", 1, Takes::kFloats, false},
                                 {"atanh", 1, Takes::kFloats, false},
                                 {"erf", 1, Takes::kFloats, false},
                                 {"sigmoid", 1, Takes::kFloats, false},
                                 {"floor", 1, Takes::kNumbers, false},
                                 {"ceil", 1, Takes::kNumbers, false},
                                 {"trunc", 1, Takes::kNumbers, false},
                                 {"round", 1, Takes::kNumbers, false},
                                 {"isnan", 1, Takes::kAny, true},
                                 {"isinf", 1, Takes::kAny, true},
                                 {"isfinite", 1, Takes::kAny, true},
                                 {"signbit", 1, Takes::kNumbers, true},
                                 {"logical_not", 1, Takes::kAny, true},
                                 {"bitwise_invert", 1, Takes::kBits, false},
                                 {"astype", 1, Takes::kAny, false},
                                 {"add", 2, Takes::kNumbers, false},
                                 {"subtract", 2, Takes::kNumbers, false},
                                 {"multiply", 2, Takes::kNumbers, false},
                                 {"divide", 2, Takes::kFloats, false},
                                 {"floor_divide", 2, Takes::kNumbers, false},
                                 {"remainder", 2, Takes::kNumbers, false},
                                 {"pow", 2, Takes::kNumbers, false},
                                 {"atan2", 2, Takes::kFloats, false},
                                 {"hypot", 2, Takes::kFloats, false},
                                 {"maximum", 2, Takes::kAny, false},
                                 {"minimum", 2, Takes::kAny, false},
                                 {"copysign", 2, Takes::kFloats, false},
                                 {"nextafter", 2, Takes::kFloats, false},
                                 {"logaddexp", 2, Takes::kFloats, false},
                                 {"bitwise_and", 2, Takes::kBits, false},
                                 {"bitwise_or", 2, Takes::kBits, false},
                                 {"bitwise_xor", 2, Takes::kBits, false},
                                 {"bitwise_left_shift", 2, Takes::kIntegers, false},
                                 {"bitwise_right_shift", 2, Takes::kIntegers, false},
                                 {"equal", 2, Takes::kAny, true},
                                 {"not_equal", 2, Takes::kAny, true},
                                 {"less", 2, Takes::kAny, true},
                                 {"less_equal", 2, Takes::kAny, true},
                                 {"greater", 2, Takes::kAny, true},
                                 {"greater_equal", 2, Takes::kAny, true},
                                 {"where", 3, Takes::kAny, false}};

}  // namespace

const OpInfo& info(Op op) { return kTable[static_cast<int>(op)]; }

}  // namespace array

const char* name(Op op) { return array::info(op).name; }

}  // namespace ebb
