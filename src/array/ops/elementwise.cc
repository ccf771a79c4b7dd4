// Elementwise operators: which types each takes, what it gives, and the lazy node for it. All errors are thrown here,
// before anything runs.
#include <algorithm>
#include <cmath>

#include "array/graph/op_info.h"
#include "array/kernels/kernel.h"
#include "array/ops/operands.h"

namespace ebb {
namespace array {
namespace {

// The type that `op` computes in for operands of `dtype`.
DType operand_type(Op op, DType dtype) {
  const OpInfo& about = info(op);
  switch (about.takes) {
    case Takes::kAny: return dtype;
    case Takes::kFloats: return is_float(dtype) ? dtype : DType::kF32;
    case Takes::kNumbers:
      if (dtype == DType::kBool) invalid(about.name, "bool has no arithmetic; convert with astype() first");
      return dtype;
    case Takes::kBits:
      if (is_float(dtype)) invalid(about.name, std::string(name(dtype)) + " has no bits to combine; use an integer");
      return dtype;
    case Takes::kIntegers:
      if (!is_integer(dtype)) invalid(about.name, std::string("needs integers, not ") + name(dtype));
      return dtype;
  }
  return dtype;
}

bool is_weak(const Array& a) { return a.node()->kind == Kind::kScalar && a.node()->weak; }

double scalar_value(const Node& node) {
  double value;
  std::memcpy(&value, node.scalar.data(), sizeof value);
  return value;
}

// The type of two operands, where a C++ number takes that of the array if that can hold it.
DType common_type(const Array& a, const Array& b) {
  if (is_weak(a) == is_weak(b)) return is_weak(a) ? DType::kF64 : promote(a.dtype(), b.dtype());
  const Array& array = is_weak(a) ? b : a;
  const double value = scalar_value(*(is_weak(a) ? a : b).node());
  if (is_float(array.dtype())) return array.dtype();
  return std::floor(value) == value && is_integer(array.dtype()) && std::abs(value) < 0x1p53 ? array.dtype()
                                                                                             : DType::kF32;
}

NodePtr as_type(const Array& a, DType dtype) {
  if (is_weak(a)) return new_scalar(scalar_value(*a.node()), dtype, false);
  return cast_to(a.node(), dtype);
}

}  // namespace
}  // namespace array

using array::invalid;

Array unary(Op op, const Array& a) {
  const auto& about = array::info(op);
  if (about.arity != 1 || op == Op::kCast) invalid(about.name, "is not an operator of one array");
  const DType type = array::operand_type(op, array::is_weak(a) ? DType::kF64 : a.dtype());
  auto shape = array::intern(about.name, about.gives_bool ? DType::kBool : type, a.shape());
  return array::wrap(array::new_elementwise(op, std::move(shape), {array::as_type(a, type)}));
}

Array binary(Op op, const Array& a, const Array& b) {
  const auto& about = array::info(op);
  if (about.arity != 2) invalid(about.name, "is not an operator of two arrays");
  const DType type = array::operand_type(op, array::common_type(a, b));
  auto shape = array::intern(about.name, about.gives_bool ? DType::kBool : type,
                             array::broadcast_shapes(about.name, a.shape(), b.shape()));
  return array::wrap(array::new_elementwise(op, std::move(shape), {array::as_type(a, type), array::as_type(b, type)}));
}

Array where(const Array& condition, const Array& a, const Array& b) {
  const DType type = array::common_type(a, b);
  const Dims sizes =
      array::broadcast_shapes("where", condition.shape(), array::broadcast_shapes("where", a.shape(), b.shape()));
  auto shape = array::intern("where", type, sizes);
  return array::wrap(array::new_elementwise(
      Op::kWhere, std::move(shape),
      {array::cast_to(condition.node(), DType::kBool), array::as_type(a, type), array::as_type(b, type)}));
}

Array clip(const Array& a, const Array& low, const Array& high) { return minimum(maximum(a, low), high); }

Array relu(const Array& a) { return maximum(a, Array(0.0)); }

Array gelu(const Array& a) { return a * 0.5 * (erf(a * 0.70710678118654752440) + 1.0); }

Array Array::astype(DType dtype) const { return array::wrap(array::cast_to(node_, dtype)); }

Array& Array::operator+=(const Array& other) { return *this = *this + other; }
Array& Array::operator-=(const Array& other) { return *this = *this - other; }
Array& Array::operator*=(const Array& other) { return *this = *this * other; }
Array& Array::operator/=(const Array& other) { return *this = *this / other; }

}  // namespace ebb
