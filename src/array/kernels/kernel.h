// Kernels: the only code that loops over elements of a tile. A tile is at most kTile elements in registers: 64-byte
// aligned buffers in the cache, one compute type each. Pure functions, chosen for this processor when looked up.
//
// Invariant: `n` is a multiple of kPad, and every buffer has room for that: kernels have no tails. Values of narrow
// types (i8 … i32 in i64, u8 … u32 in u64, f16 and bf16 in f32) are exact in their register; wrap kernels make them so
// again after every operator, so that combining operators changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/array/types.h"

namespace ebb::array {

enum class Compute : std::uint8_t { kBool, kI64, kU64, kF32, kF64 };  // bool: one byte, 0 or 1

inline constexpr std::size_t kTile = 1024;
inline constexpr std::size_t kPad = 128;

constexpr std::size_t padded(std::size_t n) { return (n + kPad - 1) / kPad * kPad; }
constexpr std::size_t size_of(Compute type) { return type == Compute::kBool ? 1 : type == Compute::kF32 ? 4 : 8; }
constexpr Compute compute_of(DType dtype) {
  return dtype == DType::kBool      ? Compute::kBool
         : dtype == DType::kF64     ? Compute::kF64
         : is_float(dtype)          ? Compute::kF32
         : is_signed_integer(dtype) ? Compute::kI64
                                    : Compute::kU64;
}
// Whether an array of `dtype` in memory looks like a register.
constexpr bool is_natural(DType dtype) { return size_of(dtype) == size_of(compute_of(dtype)); }

using Kernel = void (*)(const void* a, const void* b, const void* c, void* out, std::size_t n);
// Elements `stride` apart in memory to a register, and back; any n.
using LoadKernel = void (*)(const void* memory, std::ptrdiff_t stride, void* out, std::size_t n);
using StoreKernel = void (*)(const void* values, void* memory, std::ptrdiff_t stride, std::size_t n);
// Reduces a register into accumulators of 8 bytes: f64 for floats, i64, u64 for unsigned and bool. `n`, `rows` and
// `columns` are exact. RowReduce: n values into one; ColumnReduce: rows × columns values into `columns`.
using RowReduce = void (*)(const void* values, std::size_t n, void* accumulator);
using ColumnReduce = void (*)(const void* values, std::size_t rows, std::size_t columns, void* accumulators);

// `type` is that of the operands (of where: of its last two). Null if there is no such kernel.
Kernel find_float_kernel(Op op, Compute type);
Kernel find_integer_kernel(Op op, Compute type);
inline Kernel find_kernel(Op op, Compute type) {
  return type == Compute::kF32 || type == Compute::kF64 ? find_float_kernel(op, type) : find_integer_kernel(op, type);
}
// `narrow`: the result is rounded again to f16 or bf16, so an f64 is rounded to odd here.
Kernel find_cast(Compute from, Compute to, bool narrow);
Kernel find_wrap(DType dtype);  // null where the register is exact already
LoadKernel find_load(DType dtype);
StoreKernel find_store(DType dtype);
RowReduce find_row_reduce(Reduce kind, Compute type);
ColumnReduce find_column_reduce(Reduce kind, Compute type);
constexpr Compute accumulator_of(Compute type) {
  return type == Compute::kI64                            ? Compute::kI64
         : type == Compute::kF32 || type == Compute::kF64 ? Compute::kF64
                                                          : Compute::kU64;
}
// Copies a register to memory without reading that into the cache first. `memory` is 64-byte aligned.
void stream_out(const void* values, void* memory, std::size_t bytes);
void stream_fence();

}  // namespace ebb::array
