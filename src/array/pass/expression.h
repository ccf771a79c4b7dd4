// Expression: the elementwise part of a graph, flat: what it reads, and its operators in the order of evaluation. Nodes
// that are used twice appear once.
//
// Belongs to the caller, one thread. What runs it or writes it down as source goes through it in this order.
#pragma once

#include <map>
#include <vector>

#include "array/node.h"

namespace ebb::array {

struct Expression {
  std::vector<NodePtr> operands, operators;
  std::map<const Node*, int> operand_index, operator_index;

  // Depth is bounded by the limit on operators.
  void visit(const NodePtr& node) {
    if (node->is_leaf() || node->kind != Kind::kElementwise) {
      if (operand_index.emplace(node.get(), static_cast<int>(operands.size())).second) operands.push_back(node);
      return;
    }
    if (operator_index.contains(node.get())) return;
    // The left operand last: it is then what a chain has in its accumulator.
    for (std::size_t i = node->inputs.size(); i-- > 0;) visit(node->inputs[i]);
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

}  // namespace ebb::array
