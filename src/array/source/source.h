// Source: the pass of a combined operator as a kernel in OpenCL C or CUDA C, one work item per element, from one
// generator with two preludes. A device that runs it gets the bits of the CPU for arithmetic, comparisons and
// conversions, and the functions of its library are some units in the last place off (docs/array.md).
//
// Made from the graph alone: pure, and the same text for the same form of expression and layout.
#pragma once

#include <string>
#include <vector>

#include "array/node.h"

namespace ebb::array {

// Arguments of the kernel `ebb_pass`, in this order: the count of elements (i64), a pointer to `layout` in its memory,
// to the result in C order, and to each operand: to its element that lies lowest in memory.
struct KernelSource {
  // How element i of the result finds its operand: at i, at 0, or by the strides in `layout`.
  enum class Reads : std::uint8_t { kInOrder, kRepeated, kGathered };
  std::string text;
  std::vector<NodePtr> operands;
  std::vector<Reads> reads;          // of each operand
  std::vector<std::int64_t> layout;  // sizes; then of each operand that is gathered its first offset and strides
  ShapePtr result;
};

// `root` is a lazy elementwise node; what it needs from other passes has been evaluated.
KernelSource generate(const NodePtr& root, Dialect dialect);

}  // namespace ebb::array
