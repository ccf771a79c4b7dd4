// Flattens an expression graph into instructions, with registers by lifetime.
#include "array/pass/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "array/intern_cache.h"

namespace ebb::array {
namespace {

InternCache<Program>& cache() {
  static auto* const programs = new InternCache<Program>(2048);
  return *programs;
}

bool is_part(const NodePtr& node) { return !node->is_leaf() && node->kind == Kind::kElementwise; }

// The expression in the order of evaluation. Nodes used twice appear once.
struct Order {
  std::vector<NodePtr> operands, operators;
  std::map<const Node*, int> operand_index, operator_index;

  // Depth is bounded by the limit on operators.
  void visit(const NodePtr& node) {
    if (!is_part(node)) {
      if (operand_index.emplace(node.get(), static_cast<int>(operands.size())).second) operands.push_back(node);
      return;
    }
    if (operator_index.contains(node.get())) return;
    for (const NodePtr& input : node->inputs) visit(input);
    operator_index.emplace(node.get(), static_cast<int>(operators.size()));
    operators.push_back(node);
  }

  // Operands are numbered first.
  int value(const NodePtr& node) const {
    if (auto found = operator_index.find(node.get()); found != operator_index.end()) {
      return static_cast<int>(operands.size()) + found->second;
    }
    return operand_index.at(node.get());
  }
};

Key form(const Order& order) {
  Key key;
  for (const NodePtr& operand : order.operands) key.push_back(static_cast<int>(operand->dtype()));
  key.push_back(-1);
  for (const NodePtr& node : order.operators) {
    key.push_back(static_cast<int>(node->op) * 256 + static_cast<int>(node->dtype()));
    for (const NodePtr& input : node->inputs) key.push_back(order.value(input));
  }
  return key;
}

// Gives registers to values and takes them back after their last use.
class Registers {
 public:
  std::uint16_t take() {
    if (free_.empty()) return static_cast<std::uint16_t>(count_++);
    const std::uint16_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void give_back(std::uint16_t number) { free_.push_back(number); }
  int count() const { return count_; }

 private:
  std::vector<std::uint16_t> free_;
  int count_ = 0;
};

Kernel kernel_of(const Node& node) {
  const DType from = node.inputs[node.op == Op::kWhere ? 1 : 0]->dtype();
  const Compute type = compute_of(from);
  if (node.op == Op::kCast) {
    return find_cast(type, compute_of(node.dtype()), is_float(node.dtype()) && size_of(node.dtype()) == 2);
  }
  if (node.op == Op::kGreater) return find_kernel(Op::kLess, type);
  if (node.op == Op::kGreaterEqual) return find_kernel(Op::kLessEqual, type);
  return find_kernel(node.op, type);
}

Program compile(const Order& order) {
  Program program;
  const int operands = static_cast<int>(order.operands.size());
  const int values = operands + static_cast<int>(order.operators.size());
  for (const NodePtr& operand : order.operands) program.operands.push_back(operand->dtype());
  std::vector<int> last_use(values, -1);
  for (std::size_t i = 0; i < order.operators.size(); ++i) {
    for (const NodePtr& input : order.operators[i]->inputs) last_use[order.value(input)] = static_cast<int>(i);
  }
  Registers registers;
  std::vector<std::uint16_t> place(values);
  for (int v = 0; v < operands; ++v) place[v] = static_cast<std::uint16_t>(v);
  for (std::size_t i = 0; i < order.operators.size(); ++i) {
    const Node& node = *order.operators[i];
    std::uint16_t inputs[3] = {};
    for (std::size_t k = 0; k < node.inputs.size(); ++k) inputs[k] = place[order.value(node.inputs[k])];
    if (node.op == Op::kGreater || node.op == Op::kGreaterEqual) std::swap(inputs[0], inputs[1]);
    const std::uint16_t out = registers.take();
    const auto out_value = static_cast<std::uint16_t>(operands + out);
    program.instructions.push_back({kernel_of(node), inputs[0], inputs[1], inputs[2], out_value});
    place[operands + i] = out_value;
    if (const Kernel wrap_kernel = find_wrap(node.dtype()); wrap_kernel != nullptr) {
      const auto wrapped = static_cast<std::uint16_t>(operands + registers.take());
      program.instructions.push_back({wrap_kernel, out_value, 0, 0, wrapped});
      registers.give_back(out);
      place[operands + i] = wrapped;
    }
    std::vector<int> done;
    for (const NodePtr& input : node.inputs) done.push_back(order.value(input));
    std::sort(done.begin(), done.end());
    done.erase(std::unique(done.begin(), done.end()), done.end());
    for (int value : done) {
      if (value >= operands && last_use[value] == static_cast<int>(i)) {
        registers.give_back(static_cast<std::uint16_t>(place[value] - operands));
      }
    }
  }
  program.registers = registers.count();
  program.result = place[values - 1];
  program.dtype = (order.operators.empty() ? order.operands.back() : order.operators.back())->dtype();
  program.operators = static_cast<std::uint32_t>(order.operators.size());
  return program;
}

void collect(const NodePtr& node, std::vector<NodePtr>& found) {
  if (node->is_leaf()) return;
  if (node->kind != Kind::kElementwise) {
    found.push_back(node);
    return;
  }
  for (const NodePtr& input : node->inputs) collect(input, found);
}

}  // namespace

std::vector<NodePtr> needed_first(const NodePtr& root) {
  std::vector<NodePtr> found;
  for (const NodePtr& input : root->inputs) collect(input, found);
  return found;
}

Combined combine(const NodePtr& root) {
  Order order;
  order.visit(root);
  const Key key = form(order);
  auto program = cache().get(key, [&] {
    Program made = compile(order);
    made.identity = KeyHash{}(key);
    return made;
  });
  return {std::move(program), std::move(order.operands)};
}

CacheStats program_cache_stats() { return cache().stats(); }

}  // namespace ebb::array
