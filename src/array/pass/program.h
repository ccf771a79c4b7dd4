// Program: a combined operator: the elementwise part of an expression as a list of kernels and chains over registers.
// Immutable and interned: an expression of the same form, whatever its arrays, finds its program made.
//
// Invariant: values are numbered operands first, then registers; a kernel writes no value that it reads. The last store
// of a chain that is the last instruction is that of the result.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "array/graph/node.h"
#include "array/kernels/chain.h"

namespace ebb::array {

// A step of a chain before it is known how its value lies in memory.
struct ChainOp {
  StepKind kind;
  Op op;
  std::uint16_t value;  // that is loaded, stored, or the right operand
};
struct Chain {
  Compute type;
  std::vector<ChainOp> ops;
};

struct Instruction {
  Kernel kernel;               // null: a chain
  std::uint16_t a, b, c, out;  // values; those that the kernel does not take are 0
  std::uint16_t chain = 0;     // its number, if this is one
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Chain> chains;
  std::vector<DType> operands;
  int registers = 0;
  std::uint16_t result = 0;
  DType dtype = DType::kF32;  // of the result
  std::uint32_t operators = 0;
  std::uint64_t identity = 0;  // a hash of its form
};

// A program and the nodes that its operands are, in order.
struct Combined {
  std::shared_ptr<const Program> program;
  std::vector<NodePtr> operands;
};

// The elementwise expression that ends in `root`; everything else that it needs must have memory.
Combined combine(const NodePtr& root);
// What the pass of the node computes before it is reduced, if it is.
inline const NodePtr& elementwise_part(const NodePtr& node) {
  return node->kind == Kind::kReduce ? node->inputs.front() : node;
}
// Lazy nodes inside the expression of `root` that it reads: their passes come before its own.
std::vector<NodePtr> needed_first(const NodePtr& root);
CacheStats program_cache_stats();

}  // namespace ebb::array
