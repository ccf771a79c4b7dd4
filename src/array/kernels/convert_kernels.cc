// Memory to register and back, casts between compute types, and what makes a register exact for a narrow type again.
//
// Casts from float to integer saturate, NaN gives 0; integers wrap; anything but zero is true.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/convert_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "array/kernels/half.h"
#include "array/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

#include "array/kernels/table.inc"

// How a type lies in memory (Stored), what it is in a register (Value).
template <typename T, typename R>
struct Plain {
  using Stored = T;
  using Value = R;
  static R load(T x) { return static_cast<R>(x); }
  static T store(R x) { return static_cast<T>(x); }
};
struct Bool : Plain<std::uint8_t, std::uint8_t> {
  static std::uint8_t load(std::uint8_t x) { return x != 0; }
};
struct F16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(std::uint16_t x) { return f16_to_f32(x); }
  static std::uint16_t store(float x) { return f32_to_f16(x); }
};
struct BF16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(std::uint16_t x) { return bf16_to_f32(x); }
  static std::uint16_t store(float x) { return f32_to_bf16(x); }
};

template <typename F>
void load(const void* memory, std::ptrdiff_t stride, void* out, std::size_t n) {
  const auto* m = static_cast<const typename F::Stored*>(memory);
  auto* o = static_cast<typename F::Value*>(out);
  if (stride == 1) {
    EBB_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) o[i] = F::load(m[i]);
  } else if (stride == 0) {
    const auto value = F::load(*m);
    for (std::size_t i = 0; i < n; ++i) o[i] = value;
  } else {
    for (std::size_t i = 0; i < n; ++i) o[i] = F::load(m[static_cast<std::ptrdiff_t>(i) * stride]);
  }
}

template <typename F>
void store(const void* values, void* memory, std::ptrdiff_t stride, std::size_t n) {
  const auto* v = static_cast<const typename F::Value*>(values);
  auto* m = static_cast<typename F::Stored*>(memory);
  if (stride == 1) {
    EBB_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) m[i] = F::store(v[i]);
  } else {
    for (std::size_t i = 0; i < n; ++i) m[static_cast<std::ptrdiff_t>(i) * stride] = F::store(v[i]);
  }
}

template <typename To, typename From>
To convert(From x) {
  if constexpr (std::is_same_v<To, std::uint8_t>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From end = std::is_signed_v<To> ? From(0x1p63) : From(0x1p64);
    if (!(x >= low)) {
      if (x != x) return 0;
      // A negative number wraps in an unsigned type, as NumPy does where it can.
      return std::is_signed_v<To> ? std::numeric_limits<To>::min()
             : x <= From(-0x1p63) ? To{0}
                                  : static_cast<To>(static_cast<std::int64_t>(x));
    }
    return x >= end ? std::numeric_limits<To>::max() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// To nearest if that is exact, else to the neighbour with an odd last bit: a later rounding to fewer bits is then as if
// it were the only one.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const bool inexact = static_cast<double>(nearest) != x && x == x;
  const bool away = std::abs(static_cast<double>(nearest)) > std::abs(x);
  return std::bit_cast<float>(inexact && !(bits & 1) ? (away ? bits - 1 : bits + 1) : bits);
}

template <typename To, typename From>
constexpr Kernel cast() {
  return unary<From>([](From x) { return convert<To>(x); });
}

constexpr Kernel kCastToOdd = unary<double>([](double x) { return round_to_odd(x); });

template <typename From>
Kernel cast_from(Compute to) {
  switch (to) {
    case Compute::kBool: return cast<std::uint8_t, From>();
    case Compute::kI64: return cast<std::int64_t, From>();
    case Compute::kU64: return cast<std::uint64_t, From>();
    case Compute::kF32: return cast<float, From>();
    case Compute::kF64: return cast<double, From>();
  }
  return nullptr;
}

Kernel find_cast_here(Compute from, Compute to, bool narrow) {
  switch (from) {
    case Compute::kBool: return cast_from<std::uint8_t>(to);
    case Compute::kI64: return cast_from<std::int64_t>(to);
    case Compute::kU64: return cast_from<std::uint64_t>(to);
    case Compute::kF32: return cast_from<float>(to);
    case Compute::kF64: return narrow && to == Compute::kF32 ? kCastToOdd : cast_from<double>(to);
  }
  return nullptr;
}

struct Moves {
  LoadKernel load_kernel;
  StoreKernel store_kernel;
  Kernel wrap_kernel;
};
template <typename F>
Moves moves() {
  return {load<F>, store<F>, unary<typename F::Value>([](typename F::Value x) { return F::load(F::store(x)); })};
}

Moves find_moves_here(DType dtype) {
  switch (dtype) {
    case DType::kBool: return moves<Bool>();
    case DType::kI8: return moves<Plain<std::int8_t, std::int64_t>>();
    case DType::kI16: return moves<Plain<std::int16_t, std::int64_t>>();
    case DType::kI32: return moves<Plain<std::int32_t, std::int64_t>>();
    case DType::kI64: return moves<Plain<std::int64_t, std::int64_t>>();
    case DType::kU8: return moves<Plain<std::uint8_t, std::uint64_t>>();
    case DType::kU16: return moves<Plain<std::uint16_t, std::uint64_t>>();
    case DType::kU32: return moves<Plain<std::uint32_t, std::uint64_t>>();
    case DType::kU64: return moves<Plain<std::uint64_t, std::uint64_t>>();
    case DType::kF16: return moves<F16>();
    case DType::kBF16: return moves<BF16>();
    case DType::kF32: return moves<Plain<float, float>>();
    case DType::kF64: return moves<Plain<double, double>>();
  }
  return {};
}

void stream_out_here(const void* values, void* memory, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(memory, values, bytes);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  const auto* from = static_cast<const std::uint8_t*>(values);
  auto* to = static_cast<std::uint8_t*>(memory);
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) hn::Stream(hn::Load(d, from + i), d, to + i);
#endif
}

LoadKernel find_load_here(DType dtype) { return find_moves_here(dtype).load_kernel; }
StoreKernel find_store_here(DType dtype) { return find_moves_here(dtype).store_kernel; }
Kernel find_wrap_here(DType dtype) { return find_moves_here(dtype).wrap_kernel; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_cast_here);
HWY_EXPORT(find_load_here);
HWY_EXPORT(find_store_here);
HWY_EXPORT(find_wrap_here);
HWY_EXPORT(stream_out_here);

Kernel find_cast(Compute from, Compute to, bool narrow) {
  return HWY_DYNAMIC_DISPATCH(find_cast_here)(from, to, narrow);
}
Kernel find_wrap(DType dtype) { return is_natural(dtype) ? nullptr : HWY_DYNAMIC_DISPATCH(find_wrap_here)(dtype); }
void stream_out(const void* values, void* memory, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_out_here)(values, memory, bytes);
}
void stream_fence() { hwy::FlushStream(); }
LoadKernel find_load(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_load_here)(dtype); }
StoreKernel find_store(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_store_here)(dtype); }

}  // namespace ebb::array
#endif
