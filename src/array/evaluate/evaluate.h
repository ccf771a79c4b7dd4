// evaluate(): brings a lazy node to memory, at once or in a stream, on the host or a device; and its steps, which are
// called with evaluation_mutex() held.
#pragma once

#include <memory>

#include "array/evaluate/queued_pass.h"
#include "array/graph/node.h"
#include "array/pass/pass.h"

namespace ebb::array {

void evaluate(const NodePtr& node);
// Queues what the node needs, and returns; whoever calls evaluate() waits for it.
void evaluate(const NodePtr& node, Stream& stream);
// Evaluates what lazily reads this memory, before it is written.
void evaluate_readers(Storage& storage);

inline void become_ready(Node& node) {
  node.inputs.clear();
  node.ready.store(true, std::memory_order_release);
}
// The elementwise expression to where it is wanted, on the host or a GPU.
void write(const NodePtr& root, const Target& target);
StoragePtr new_storage(const Node& node);
// Into memory that is the node's or will be.
Pass make_pass(const NodePtr& node, Combined combined, const Storage& memory);
// A pass in a stream that the node needs and that is not over; null if there is none, and those that are over are then
// settled: their nodes are ready, or lazy as if they had never been queued. Those of `ordered` do not count.
std::shared_ptr<QueuedPass> unfinished(const NodePtr& node, const Runtime* ordered);

}  // namespace ebb::array
