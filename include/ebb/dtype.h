// DType: the element types of an Array, what they are called, and how two of them meet.
//
// Value type, std only. Arithmetic on f16 and bf16 is done in f32 and rounded after every operator, so a combined pass
// gives the same bits as one operator at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ebb {

enum class DType : std::uint8_t { kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64 };
inline constexpr int kDTypes = 13;

namespace detail {
struct DTypeInfo {
  const char* name;      // as the Python array API standard writes it
  std::uint8_t bytes;    // of one element
  char kind;             // b(ool), i(nteger), u(nsigned), f(loat)
  const char* npy_code;  // in the header of a .npy file; bf16 has none
};
inline constexpr DTypeInfo kDTypeTable[kDTypes] = {
    {"bool", 1, 'b', "|b1"},   {"int8", 1, 'i', "|i1"},    {"int16", 2, 'i', "<i2"},  {"int32", 4, 'i', "<i4"},
    {"int64", 8, 'i', "<i8"},  {"uint8", 1, 'u', "|u1"},   {"uint16", 2, 'u', "<u2"}, {"uint32", 4, 'u', "<u4"},
    {"uint64", 8, 'u', "<u8"}, {"float16", 2, 'f', "<f2"}, {"bfloat16", 2, 'f', ""},  {"float32", 4, 'f', "<f4"},
    {"float64", 8, 'f', "<f8"}};
constexpr const DTypeInfo& info(DType dtype) { return kDTypeTable[static_cast<int>(dtype)]; }
}  // namespace detail

constexpr std::size_t size_of(DType dtype) { return detail::info(dtype).bytes; }
constexpr const char* name(DType dtype) { return detail::info(dtype).name; }
constexpr bool is_float(DType dtype) { return detail::info(dtype).kind == 'f'; }
constexpr bool is_signed_integer(DType dtype) { return detail::info(dtype).kind == 'i'; }
constexpr bool is_unsigned_integer(DType dtype) { return detail::info(dtype).kind == 'u'; }
constexpr bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }

// The type that an operator of two arrays computes in: the table of the Python array API standard within a kind; a
// boolean takes the other type, an integer with a float takes the float type, f16 with bf16 takes f32. u64 with a
// signed integer has no common type: throws Error(kInvalid).
DType promote(DType a, DType b);

// The DType of a C++ type: bool, the integers, float, double.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::kF32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::kF64;
  } else {
    static_assert(std::is_integral_v<T>, "no DType for this C++ type");
    constexpr int rank = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return static_cast<DType>(static_cast<int>(std::is_signed_v<T> ? DType::kI8 : DType::kU8) + rank);
  }
}

}  // namespace ebb
