// OperatorGraph: the nested operators that a profiler recorded, and the trace that follows from them. What the
// importers of PyTorch execution traces and of Chakra traces share; they only differ in how a file spells an operator.
//
// How it is derived. Operators are walked as they ran: an operator is entered, those it called run, then it ends.
//   * A tensor of the trace is one life of a storage. Profilers name storages by address, so a name comes back when
//     memory is reused: an operator that returns a storage which it was not given begins a new life of it.
//   * Reads and writes come from the schema: `Tensor(a!)` is written, a result that was not an argument is written,
//   every
//     other argument is read. A result that aliases an argument without `!` is a view, which touches nothing.
//   * An operator is a launch if it touches something that no launch inside it touched.
//   * A tensor is persistent if it is read before it is written and is still used in the last iteration; without marked
//     iterations, if it is then updated in place or used in the second half.
//
// Owned by one import; one thread. Deterministic: the same file gives the same trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/trace.h"

namespace ebb {

struct TensorRef {
  std::uint64_t storage = 0;
  std::uint64_t bytes = 0;  // from the start of the storage to the last byte of this tensor
  bool operator==(const TensorRef&) const = default;
};

struct OperatorNode {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::string name;
  std::string schema;                           // "aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)"; may be empty
  std::vector<std::vector<TensorRef>> inputs;   // by argument; an argument may be a list of tensors, or none
  std::vector<std::vector<TensorRef>> outputs;  // by result
  std::uint64_t ns = Trace::kUnknown;           // of this operator without those it called
  bool opaque = false;                          // a kernel without a schema: reads and writes all it is given
};

// What can be told from the graph goes into `trace`; every guess and everything missing into a note.
struct Import {
  Trace trace;
  std::vector<std::string> notes;
};

Import import_graph(std::vector<OperatorNode> nodes);

// Size of a tensor, in bytes from the start of its storage; shape and strides may be empty if unknown. False if it does
// not fit the limits of a trace.
bool extent_bytes(std::uint64_t offset, std::uint64_t elements, std::uint64_t element_bytes,
                  const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
                  std::uint64_t& bytes);

}  // namespace ebb
