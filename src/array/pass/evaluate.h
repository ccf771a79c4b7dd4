// The steps of evaluate(), at once and in a stream. Called with evaluation_mutex() held.
#pragma once

#include <memory>

#include "array/node.h"
#include "array/pass/pass.h"
#include "array/pass/queued_pass.h"

namespace ebb::array {

inline void become_ready(Node& node) {
  node.inputs.clear();
  node.ready.store(true, std::memory_order_release);
}
// The elementwise expression to where it is wanted, on the host or a GPU.
void write(const NodePtr& root, const Target& target);
StoragePtr new_storage(const Node& node);
// Into memory that is the node's or will be.
Pass make_pass(const NodePtr& node, Combined combined, const Storage& memory);
// What the pass of the node computes before it is reduced, if it is.
inline const NodePtr& elementwise_part(const NodePtr& node) {
  return node->kind == Kind::kReduce ? node->inputs.front() : node;
}
// A pass in a stream that the node needs and that is not over; null if there is none, and those that are over are then
// settled: their nodes are ready, or lazy as if they had never been queued. Those of `ordered` do not count.
std::shared_ptr<QueuedPass> unfinished(const NodePtr& node, const Runtime* ordered);

}  // namespace ebb::array
