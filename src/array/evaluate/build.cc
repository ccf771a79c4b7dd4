// Building lazy nodes within the limits on what an expression may hold.
#include "array/evaluate/build.h"

#include <algorithm>
#include <map>

#include "array/evaluate/evaluate.h"
#include "ebb/array.h"

namespace ebb {
namespace array {
namespace {

// An expression of so many arrays of one size is never too large to be combined: a pass reads each of them once.
constexpr std::uint64_t kArgumentsAlways = 4;

std::mutex limits_mutex;
CombineLimits limits_now;

// What one input adds to an expression.
void add_cost(Node& node, const Node& input) {
  if (!input.is_leaf() && !input.placed.load(std::memory_order_relaxed)) {
    node.operators += input.operators;
    node.arguments += input.arguments;
    node.held_bytes += input.held_bytes;
  } else {
    ++node.arguments;
    if (input.storage) node.held_bytes += input.shape->count * size_of(input.dtype());
  }
}

void measure(Node& node) {
  node.operators = 1;
  node.arguments = 0;
  node.held_bytes = 0;
  for (const NodePtr& input : node.inputs) add_cost(node, *input);
}

void collect_held(const Node& node, std::map<const Storage*, std::uint64_t>& held) {
  for (const NodePtr& input : node.inputs) {
    if (!input->is_leaf() && !input->placed.load(std::memory_order_relaxed)) {
      collect_held(*input, held);
    } else if (input->storage) {
      std::uint64_t& bytes = held[input->storage.get()];
      bytes = std::max<std::uint64_t>(bytes, input->shape->count * size_of(input->dtype()));
    }
  }
}

// What `held_bytes` counts as often as it is used is counted once here.
bool holds_too_much(const Node& node, const CombineLimits& limits) {
  if (node.operators <= 1 || node.held_bytes <= limits.held_bytes) return false;
  std::map<const Storage*, std::uint64_t> held;
  {
    std::lock_guard lock(evaluation_mutex());  // another thread may be evaluating what is inside
    collect_held(node, held);
  }
  std::uint64_t total = 0, largest = 0;
  for (const auto& [storage, bytes] : held) {
    total += bytes;
    largest = std::max(largest, bytes);
  }
  return total > std::max(limits.held_bytes, kArgumentsAlways * largest);
}

// Evaluates lazy inputs, the most expensive first, until the expression is within the limits.
void enforce_limits(Node& node) {
  const CombineLimits limits = combine_limits();
  measure(node);
  while (node.operators > limits.operators || node.arguments > limits.arguments || holds_too_much(node, limits)) {
    Node* heaviest = nullptr;
    NodePtr chosen;
    for (const NodePtr& input : node.inputs) {
      if (input->is_leaf() || input->placed.load() || (heaviest != nullptr && input->operators <= heaviest->operators))
        continue;
      heaviest = input.get();
      chosen = input;
    }
    if (chosen == nullptr) return;  // all are memory: a single operator may read what it likes
    forced_evaluations().fetch_add(1, std::memory_order_relaxed);
    evaluate(chosen);
    measure(node);
  }
}

NodePtr finish(NodePtr node) {
  node->ready.store(false, std::memory_order_relaxed);
  node->storage = std::make_shared<Storage>();  // without memory yet; those who will read it are noted here
  enforce_limits(*node);
  for (const NodePtr& input : node->inputs) register_reader(node, input);
  return node;
}

}  // namespace

NodePtr new_elementwise(Op op, ShapePtr shape, std::vector<NodePtr> inputs) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::kElementwise;
  node->op = op;
  // A part that is smaller than the result is computed once, not once per repetition.
  for (const NodePtr& input : inputs) {
    if (!input->is_leaf() && !input->placed.load() && input->shape->count != shape->count) evaluate(input);
  }
  node->shape = std::move(shape);
  node->inputs = std::move(inputs);
  return finish(std::move(node));
}

NodePtr new_reduce(Reduce kind, ShapePtr shape, const Dims& dims, NodePtr input) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::kReduce;
  node->reduce = kind;
  node->dims = dims;
  node->shape = std::move(shape);
  node->inputs.push_back(std::move(input));
  return finish(std::move(node));
}

NodePtr cast_to(const NodePtr& node, DType dtype) {
  if (node->dtype() == dtype) return node;
  return new_elementwise(Op::kCast, intern("astype", dtype, node->shape->sizes), {node});
}

std::atomic<std::uint64_t>& forced_evaluations() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

}  // namespace array

void set_combine_limits(const CombineLimits& limits) {
  std::lock_guard lock(array::limits_mutex);
  array::limits_now = limits;
}

CombineLimits combine_limits() {
  std::lock_guard lock(array::limits_mutex);
  return array::limits_now;
}

}  // namespace ebb
