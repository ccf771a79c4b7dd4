// Expression: the elementwise part of a graph, flat: what it reads, and its operators in the order of evaluation. What
// is used twice appears once, and so does what was written down twice: the same operator on the same values, or the
// same number.
//
// Belongs to the caller, one thread. What runs it or writes it down as source goes through it in this order.
#pragma once

#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "array/graph/node.h"

namespace ebb::array {

class Expression {
 public:
  std::vector<NodePtr> operands, operators;

  explicit Expression(const NodePtr& root) { visit(root); }

  // The number of a node's value: operands come first.
  int value(const NodePtr& node) const { return value(*node); }
  int value(const Node& node) const {
    const int number = numbers_.at(&node);
    return number < 0 ? -1 - number : static_cast<int>(operands.size()) + number;
  }

 private:
  // Depth is bounded by the limit on operators.
  void visit(const NodePtr& node) {
    if (numbers_.contains(node.get())) return;
    if (node->is_operand()) {
      numbers_.emplace(node.get(), operand(node));
      return;
    }
    // The left operand last: it is then what a chain has in its accumulator.
    for (std::size_t i = node->inputs.size(); i-- > 0;) visit(node->inputs[i]);
    std::vector<int> form{static_cast<int>(node->op), static_cast<int>(node->dtype())};
    for (const NodePtr& input : node->inputs) form.push_back(numbers_.at(input.get()));
    const auto [found, is_new] = forms_.emplace(std::move(form), static_cast<int>(operators.size()));
    numbers_.emplace(node.get(), found->second);
    if (is_new) operators.push_back(node);
  }

  int operand(const NodePtr& node) {
    const int number = -1 - static_cast<int>(operands.size());
    if (node->kind == Kind::kScalar) {
      const auto bits = std::bit_cast<std::uint64_t>(node->scalar);
      const auto [found, is_new] = scalars_.emplace(std::pair(node->dtype(), bits), number);
      if (!is_new) return found->second;
    }
    operands.push_back(node);
    return number;
  }

  std::map<const Node*, int> numbers_;                      // operator i: i; operand k: -1 - k
  std::map<std::vector<int>, int> forms_;                   // operator, type and operands to the operator's number
  std::map<std::pair<DType, std::uint64_t>, int> scalars_;  // to the operand's number
};

}  // namespace ebb::array
