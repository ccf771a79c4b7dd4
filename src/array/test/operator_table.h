// Shared by the tests of generated kernels: which types an operator takes, and many operators in one expression.
//
// Used by one thread.
#pragma once

#include <vector>

#include "ebb/array.h"

namespace ebb::array_test {

// Whether the standard has the operator for the type.
inline bool takes(Op op, DType dtype) {
  try {
    const Array one = full({1}, 1.0, dtype);
    const bool is_unary = op <= Op::kBitwiseNot;
    return (is_unary ? unary(op, one) : binary(op, one, one)).node()->inputs.front()->dtype() == dtype;
  } catch (const Error&) {
    return false;
  }
}

// One expression that applies the i-th operator to the elements whose selector is i.
inline Array all_of(const std::vector<Array>& results, const Array& selector, DType dtype) {
  Array all = results.front().astype(dtype);
  for (std::size_t k = 1; k < results.size(); ++k) {
    all = where(equal(selector, scalar_int(static_cast<std::int64_t>(k))), results[k].astype(dtype), all);
  }
  return all;
}

}  // namespace ebb::array_test
