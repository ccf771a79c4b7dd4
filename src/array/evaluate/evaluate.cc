// A lazy node comes to memory: first what its expression needs from other passes, then its own pass.
#include "array/evaluate/evaluate.h"

#include "array/device/cuda_pass.h"
#include "array/device/opencl_pass.h"
#include "array/device/placement.h"
#include "array/evaluate/build.h"
#include "array/shape/tad.h"
#include "array/source/source.h"
#include "ebb/array.h"

namespace ebb {
namespace array {
namespace {

// Nothing of the node changes before its pass has succeeded: an exception leaves it lazy.
void run_now(const NodePtr& node) {
  if (node->is_leaf()) return;
  for (const NodePtr& needed : needed_first(node)) run_now(needed);
  const StoragePtr memory = new_storage(*node);
  const Target target{static_cast<std::byte*>(memory->data), node->shape, memory.get()};
  if (is_on_device(target)) {
    write_on_device(node, target);
  } else if (node->kind == Kind::kReduce || !opencl_pass(node, target)) {
    run(make_pass(node, on_host(combine(elementwise_part(node))), *memory));
  }
  node->storage->take_from(*memory);
  become_ready(*node);
}

}  // namespace

void write(const NodePtr& root, const Target& target) {
  if (is_on_device(target)) return write_on_device(root, target);
  run(make_elementwise_pass(on_host(combine(root)), target));
}

StoragePtr new_storage(const Node& node) {
  return allocate_storage(static_cast<std::size_t>(node.shape->count) * size_of(node.dtype()));
}

Pass make_pass(const NodePtr& node, Combined combined, const Storage& memory) {
  Target target{static_cast<std::byte*>(memory.data), node->shape, &memory};
  if (node->kind != Kind::kReduce) return make_elementwise_pass(std::move(combined), std::move(target));
  const Dims& sizes = node->inputs.front()->shape->sizes;
  return make_reduce_pass(node->reduce, std::move(combined), sizes, node->dims, std::move(target));
}

std::shared_ptr<QueuedPass> unfinished(const NodePtr& node, const Runtime* ordered) {
  if (node->is_leaf()) return nullptr;
  if (node->queued != nullptr) {
    if (!node->queued->over()) return node->queued->runtime() == ordered ? nullptr : node->queued;
    const bool succeeded = node->queued->succeeded();
    node->inputs = node->queued->take_inputs();
    node->queued.reset();
    if (succeeded) become_ready(*node);
    node->placed.store(false, std::memory_order_release);
    if (succeeded) return nullptr;
  }
  for (const NodePtr& needed : needed_first(node)) {
    if (auto found = unfinished(needed, ordered); found != nullptr) return found;
  }
  return nullptr;
}

void evaluate(const NodePtr& node) {
  while (!node->is_leaf()) {
    std::unique_lock lock(evaluation_mutex());
    const auto pending = unfinished(node, nullptr);
    if (pending == nullptr) return run_now(node);
    lock.unlock();  // a kernel before it may evaluate arrays
    pending->wait();
  }
}

void evaluate_readers(Storage& storage) {
  std::vector<std::weak_ptr<Node>> pending;
  {
    std::lock_guard lock(storage.pending_mutex);
    pending.swap(storage.pending);
  }
  for (const auto& weak : pending) {
    const NodePtr node = weak.lock();
    if (node != nullptr && !node->is_leaf()) evaluate(node);
  }
}

}  // namespace array

ArrayStats array_stats() {
  return {array::shape_cache_stats(),
          array::program_cache_stats(),
          array::tad_cache_stats(),
          array::passes_run(),
          array::operators_run(),
          array::forced_evaluations(),
          array::opencl_passes_run() + array::cuda_passes_run()};
}

std::string kernel_source(const Array& a, Dialect dialect) {
  const array::NodePtr& root = a.node();
  if (root->is_leaf() || root->kind != array::Kind::kElementwise) {
    array::invalid("kernel_source",
                   "needs an elementwise expression that has not been evaluated; of a reduction, give its operand");
  }
  for (const array::NodePtr& needed : array::needed_first(root)) array::evaluate(needed);
  return array::generate(root, root->shape, dialect).text;
}

}  // namespace ebb
