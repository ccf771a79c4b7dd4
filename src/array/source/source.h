// Source: the pass of a combined operator as a kernel in OpenCL C or CUDA C, one work item per element, from one
// generator with two preludes. A device that runs it gets the bits of the CPU for arithmetic, comparisons and
// conversions, and the functions of its library are some units in the last place off (docs/array.md).
//
// Made from the graph alone: pure, and the same text for the same form of expression and layout.
#pragma once

#include <string>
#include <vector>

#include "array/graph/node.h"
#include "array/pass/reduction.h"
#include "array/pass/tiles.h"

namespace ebb::array {

// Arguments of the kernel `ebb_pass`, in this order: the number of the first element of this launch and the count of
// elements (i64), `layout`, and pointers to the result and to each operand: to their element of that number, if they
// are in order, else to the one that lies lowest in memory. OpenCL C gets a pointer to `layout` in its memory; CUDA C
// gets it by value, as well as operands that are numbers.
struct KernelSource {
  // How element i of the launch finds an operand, or its place in the result: at i, at 0, by the strides in `layout`;
  // or it is the argument itself.
  enum class Reads : std::uint8_t { kInOrder, kRepeated, kGathered, kByValue };
  std::string text;
  std::vector<NodePtr> operands;
  std::vector<Reads> reads;          // of each operand; last of the result: in order or gathered
  std::vector<std::int64_t> layout;  // sizes; then of each that is gathered its first offset and strides
  Space space;                       // of all launches; layouts as in `reads`
  ShapePtr result;
};

// `root` is an elementwise expression; what it needs from other passes has been evaluated. `result`: the shape, with
// any strides, of where it is written.
KernelSource generate(const NodePtr& root, const ShapePtr& result, Dialect dialect);

// The reduction of `root` in CUDA C: `ebb_reduce` folds elements into accumulators, of which each result has one in
// each of `chunks` tables. Arguments: the number of the first element, the count of threads, `layout`; of the elements
// of this launch, how many a result has, and how many results lie side by side; `chunks`, and words from one table to
// the next; the index of the first element of each result (more than 0: the accumulators have a value already); what an
// accumulator begins with; the accumulators of the first result; operands as above. A thread takes every chunks-th
// element of one result.
KernelSource generate_reduce(Reduce kind, const NodePtr& root, const ReduceOrder& order);

}  // namespace ebb::array
