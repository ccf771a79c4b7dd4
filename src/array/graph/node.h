// Node: a vertex of the expression graph: memory with a shape, a scalar, or an operator whose result is not there yet.
//
// Shared by the Arrays and nodes that refer to it. Immutable, but for the one step from lazy to evaluated, which
// happens under evaluation_mutex(): memory is set, inputs are dropped, `ready` is stored; a reader that has seen
// `ready` may read the rest. A node whose pass is in a stream is lazy still, but `placed`: it has its memory, so the
// expressions of others end at it; what happens next is settled by who evaluates it. A code generator can walk it: `op`
// and `inputs` of lazy nodes, `shape`, and leaves.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "array/graph/storage.h"
#include "array/shape/shape_info.h"
#include "ebb/array/types.h"

namespace ebb::array {

struct Node;
class QueuedPass;
using NodePtr = std::shared_ptr<Node>;

enum class Kind : std::uint8_t { kMemory, kScalar, kElementwise, kReduce };

struct Node {
  Kind kind = Kind::kMemory;  // as it was made: a lazy one that is ready is memory in all but this name
  ShapePtr shape;             // of a lazy node: in C order, as its memory will be
  std::atomic<bool> ready{true};

  StoragePtr storage;       // of a lazy node: without memory until it is ready; of scalars: none
  std::int64_t offset = 0;  // in elements, of the element with index 0
  std::array<std::byte, 8> scalar{};
  bool weak = false;  // a scalar that takes the type of what it meets

  Op op = Op::kCast;
  Reduce reduce = Reduce::kSum;
  Dims dims;  // that are reduced, sorted
  std::vector<NodePtr> inputs;
  std::atomic<bool> placed{false};
  std::shared_ptr<QueuedPass> queued;  // set while placed; has the inputs

  // What an expression through this node comes to, when built: see CombineLimits.
  std::uint32_t operators = 0, arguments = 0;
  std::uint64_t held_bytes = 0;

  bool is_leaf() const { return ready.load(std::memory_order_acquire); }
  // Whether an expression reads its memory instead of going on to its inputs.
  bool is_operand() const { return is_leaf() || kind != Kind::kElementwise || placed.load(std::memory_order_acquire); }
  bool is_on_device() const { return is_leaf() && storage != nullptr && storage->device != nullptr; }
  DType dtype() const { return shape->dtype; }
  const std::byte* data() const {
    return kind == Kind::kScalar ? scalar.data()
                                 : static_cast<const std::byte*>(storage->data) +
                                       offset * static_cast<std::int64_t>(size_of(shape->dtype));
  }
};

std::mutex& evaluation_mutex();

// Leaves.
NodePtr new_memory(ShapePtr shape);  // allocates
NodePtr view_of(const NodePtr& base, ShapePtr shape, std::int64_t offset);
NodePtr new_scalar(double value, DType dtype, bool weak);
NodePtr new_scalar_int(std::int64_t value, DType dtype);

// `node` reads the memory of `input`, lazily or in a stream.
void register_reader(const NodePtr& node, const NodePtr& input);

}  // namespace ebb::array
