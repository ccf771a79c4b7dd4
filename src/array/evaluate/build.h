// Lazy nodes. What would go beyond the limits (CombineLimits) is evaluated first. Any thread, without
// evaluation_mutex().
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "array/graph/node.h"

namespace ebb::array {

NodePtr new_elementwise(Op op, ShapePtr shape, std::vector<NodePtr> inputs);  // that broadcast to `shape`
NodePtr new_reduce(Reduce kind, ShapePtr shape, const Dims& dims, NodePtr input);
NodePtr cast_to(const NodePtr& node, DType dtype);  // itself if it has the type
std::atomic<std::uint64_t>& forced_evaluations();

}  // namespace ebb::array
