// Reductions and what is composed of them. Shapes and types are settled here; the work is in pass/reduce_pass.cc.
#include <algorithm>
#include <cmath>

#include "array/ops/operands.h"

namespace ebb {
namespace {

using array::invalid;

constexpr const char* kNames[] = {"sum", "prod", "min", "max", "any", "all", "argmin", "argmax"};

const char* name_of(Reduce kind) { return kNames[static_cast<int>(kind)]; }

DType result_type(Reduce kind, DType dtype) {
  switch (kind) {
    case Reduce::kSum:
    case Reduce::kProd: return is_float(dtype) ? dtype : is_unsigned_integer(dtype) ? DType::kU64 : DType::kI64;
    case Reduce::kMin:
    case Reduce::kMax: return dtype;
    case Reduce::kAny:
    case Reduce::kAll: return DType::kBool;
    default: return DType::kI64;
  }
}

Dims result_shape(const Dims& sizes, const Dims& dims, bool keep_dims) {
  Dims result;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool reduced = std::binary_search(dims.begin(), dims.end(), static_cast<std::int64_t>(d));
    if (!reduced || keep_dims) result.push_back(reduced ? 1 : sizes[d]);
  }
  return result;
}

double elements_per_result(const Array& a, const Dims& dims) {
  double count = 1;
  for (std::int64_t d : array::checked_dims("mean", dims, a.rank())) count *= static_cast<double>(a.shape()[d]);
  return count;
}

// Half-precision values are averaged and normalised in f32.
Array widened(const Array& a) { return is_float(a.dtype()) && size_of(a.dtype()) > 2 ? a : a.astype(DType::kF32); }

Array as_result(const Array& value, const Array& like) {
  return is_float(like.dtype()) ? value.astype(like.dtype()) : value;
}

Array arg_reduce(Reduce kind, const Array& a, std::optional<int> dim, bool keep) {
  return reduce(kind, a, dim ? Dims{*dim} : Dims{}, keep);
}

}  // namespace

// `dims` empty and rank 0: the element itself is reduced, which also converts it.
Array reduce(Reduce kind, const Array& a, const Dims& dims, bool keep_dims) {
  const char* who = name_of(kind);
  const Dims chosen = array::checked_dims(who, dims, a.rank());
  const bool is_arg = kind == Reduce::kArgMin || kind == Reduce::kArgMax;
  if (is_arg && chosen.size() > 1 && static_cast<int>(chosen.size()) < a.rank()) {
    invalid(who, "takes one dimension or all of them");
  }
  if (is_arg || kind == Reduce::kMin || kind == Reduce::kMax) {
    for (std::int64_t d : chosen) {
      if (a.shape()[d] == 0) invalid(who, "there is no element along dimension " + std::to_string(d));
    }
  }
  Array input = a;
  if (kind == Reduce::kAny || kind == Reduce::kAll) input = a.astype(DType::kBool);
  if ((kind == Reduce::kSum || kind == Reduce::kProd) && a.dtype() == DType::kBool) input = a.astype(DType::kI64);
  auto shape = array::intern(who, result_type(kind, a.dtype()), result_shape(a.shape(), chosen, keep_dims));
  return array::wrap(array::new_reduce(kind, std::move(shape), chosen, input.node()));
}

Array mean(const Array& a, const Dims& dims, bool keep) {
  return as_result(sum(widened(a), dims, keep) / elements_per_result(a, dims), a);
}

Array variance(const Array& a, const Dims& dims, double correction, bool keep) {
  const Array x = widened(a);
  const Array centred = x - mean(x, dims, true);
  const double count = elements_per_result(a, dims) - correction;
  return as_result(sum(square(centred), dims, keep) / Array(std::max(count, 0.0)), a);
}

Array norm(const Array& a, const Dims& dims, bool keep) {
  return as_result(sqrt(sum(square(widened(a)), dims, keep)), a);
}

Array argmin(const Array& a, std::optional<int> dim, bool keep) { return arg_reduce(Reduce::kArgMin, a, dim, keep); }
Array argmax(const Array& a, std::optional<int> dim, bool keep) { return arg_reduce(Reduce::kArgMax, a, dim, keep); }

Array softmax(const Array& a, int dim) {
  const Dims dims{array::checked_dim("softmax", dim, a.rank())};
  const Array x = widened(a);
  if (a.size() == 0) return as_result(x, a);
  const Array powers = exp(x - max(x, dims, true)).evaluate();
  return as_result(powers / sum(powers, dims, true), a);
}

Array log_softmax(const Array& a, int dim) {
  const Dims dims{array::checked_dim("log_softmax", dim, a.rank())};
  const Array x = widened(a);
  if (a.size() == 0) return as_result(x, a);
  const Array shifted = x - max(x, dims, true);
  return as_result(shifted - log(sum(exp(shifted), dims, true)), a);
}

Array layer_norm(const Array& a, const Array& weight, const Array& bias, double epsilon) {
  if (a.rank() == 0) invalid("layer_norm", "a 0-d array has no last dimension");
  const Dims expected{a.size(-1)};
  if (weight.shape() != expected || bias.shape() != expected) {
    invalid("layer_norm", "weight and bias must have shape " + array::to_text(expected));
  }
  const Array x = widened(a);
  const Array centred = x - mean(x, {-1}, true);
  const Array scale = sqrt(mean(square(centred), {-1}, true) + epsilon);
  return as_result(centred / scale * weight + bias, a);
}

}  // namespace ebb
