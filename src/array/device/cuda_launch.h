// What launches of generated kernels share: where the elements of a piece lie, and what its kernel gets for them.
//
// Pure functions; the operands must outlive what they give.
#pragma once

#include <cstdint>
#include <vector>

#include "array/source/source.h"
#include "ebb/cuda/stream.h"

namespace ebb::array {

inline constexpr std::int64_t kPieceMin = 256;  // elements; a launch of fewer is as long as its start
// What a kernel may have for parameters on every GPU (CUDA C++ Programming Guide, function parameters).
inline constexpr std::size_t kParameterBytesMax = 4096;

// Threads for so many elements; a block has 256.
CudaGrid grid_of(std::int64_t threads);
std::size_t parameter_bytes(const KernelSource& source);

struct OffsetRange {
  std::int64_t low, high;  // in elements, both included
};
// Where the elements with numbers [first, first + n) of the space lie in memory: no wider than the dimensions inside
// the first one in which first and last differ.
OffsetRange range_of(const Space& space, const Layout& layout, std::int64_t first, std::int64_t n);
// What these elements read of operand k, if it has memory.
void add_access(const KernelSource& source, std::size_t k, std::int64_t first, std::int64_t n,
                std::vector<Access>& accesses);
// By operand, the pointer that a launch whose first element has this number gets, or that to the number that it is.
std::vector<const void*> pointers_of(const KernelSource& source, std::int64_t first);

}  // namespace ebb::array
