// promote(): the table of the array API standard, by kind and width.
#include "ebb/dtype.h"

#include <algorithm>
#include <string>

#include "ebb/status.h"

namespace ebb {
namespace {

DType wider(DType a, DType b) { return size_of(a) >= size_of(b) ? a : b; }

DType signed_of(std::size_t bytes) {
  return bytes == 1 ? DType::kI8 : bytes == 2 ? DType::kI16 : bytes == 4 ? DType::kI32 : DType::kI64;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) return size_of(a) == 2 && size_of(b) == 2 ? DType::kF32 : wider(a, b);
  if (is_signed_integer(a) == is_signed_integer(b)) return wider(a, b);
  const DType with_sign = is_signed_integer(a) ? a : b;
  const DType without = is_signed_integer(a) ? b : a;
  if (without == DType::kU64) {
    throw Error(Status::kInvalid, std::string("uint64 and ") + name(with_sign) +
                                      " have no common integer type; convert one with astype()");
  }
  return signed_of(std::max(size_of(with_sign), 2 * size_of(without)));
}

}  // namespace ebb
