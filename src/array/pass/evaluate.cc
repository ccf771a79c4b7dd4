// evaluate(): brings a lazy node to memory: first what its expression needs from other passes, then its own pass.
#include "array/node.h"
#include "array/pass/device_pass.h"
#include "array/pass/pass.h"
#include "array/tad.h"

namespace ebb {
namespace array {
namespace {

// Nothing of the node changes before its pass has succeeded: an exception leaves it lazy.
void run(const NodePtr& node) {
  if (node->is_leaf()) return;
  for (const NodePtr& needed : needed_first(node)) run(needed);
  const auto memory = allocate_storage(static_cast<std::size_t>(node->shape->count) * size_of(node->dtype()));
  const Target target{static_cast<std::byte*>(memory->data), node->shape, memory.get()};
  if (node->kind == Kind::kReduce) {
    const NodePtr& input = node->inputs.front();
    reduce_pass(node->reduce, combine(input), input->shape->sizes, node->dims, target);
  } else if (!device_pass(node, target)) {
    elementwise_pass(combine(node), target);
  }
  node->storage->take_from(*memory);
  node->inputs.clear();
  node->ready.store(true, std::memory_order_release);
}

}  // namespace

void evaluate(const NodePtr& node) {
  if (node->is_leaf()) return;
  std::lock_guard lock(evaluation_mutex());
  run(node);
}

}  // namespace array

ArrayStats array_stats() {
  return {array::shape_cache_stats(), array::program_cache_stats(), array::tad_cache_stats(),  array::passes_run(),
          array::operators_run(),     array::forced_evaluations(),  array::device_passes_run()};
}

}  // namespace ebb
