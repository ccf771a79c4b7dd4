// Flattens an expression graph into instructions, with registers by lifetime. Neighbouring operators of cheap
// arithmetic become one chain, in which only values that are not used up by the next operator have a register.
#include "array/pass/program.h"

#include <algorithm>
#include <utility>

#include "array/graph/expression.h"
#include "array/shape/intern_cache.h"

namespace ebb::array {
namespace {

InternCache<Program>& cache() {
  static auto* const programs = new InternCache<Program>(2048);
  return *programs;
}

Key form(const Expression& order) {
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

constexpr std::uint16_t kNoPlace = 0xFFFF;

// Makes the program of an expression, operator by operator.
class Compiler {
 public:
  explicit Compiler(const Expression& order) : order_(order), operands_(static_cast<int>(order.operands.size())) {
    const std::size_t values = order.operands.size() + order.operators.size();
    users_.resize(values);
    place_.assign(values, kNoPlace);
    for (const NodePtr& operand : order.operands) program_.operands.push_back(operand->dtype());
    for (int v = 0; v < operands_; ++v) place_[v] = static_cast<std::uint16_t>(v);
    for (std::size_t i = 0; i < order.operators.size(); ++i) {
      const Node& node = *order.operators[i];
      for (const NodePtr& input : node.inputs) users_[order.value(input)].push_back(static_cast<int>(i));
      const DType from = node.inputs.front()->dtype();
      const bool chained = find_wrap(node.dtype()) == nullptr && is_chained(node.op, compute_of(from));
      types_.push_back(chained ? compute_of(from) : Compute::kBool);
    }
  }

  Program compile() {
    for (std::size_t i = 0; i < order_.operators.size(); ++i) {
      if (is_chain(i)) {
        add_to_chain(i);
      } else {
        add_kernels(i);
      }
      give_back_inputs(i);
    }
    for (Chain& chain : program_.chains) chain.ops.push_back({StepKind::kEnd, Op::kCast, 0});
    program_.registers = registers_.count();
    program_.result = place_.back();
    const bool is_plain = order_.operators.empty();
    program_.dtype = (is_plain ? order_.operands.back() : order_.operators.back())->dtype();
    program_.operators = static_cast<std::uint32_t>(order_.operators.size());
    return std::move(program_);
  }

 private:
  // Kernels of tiles have types_ kBool, which no chain has.
  bool is_chain(std::size_t i) const { return i < types_.size() && types_[i] != Compute::kBool; }
  bool joins_next(std::size_t i) const { return is_chain(i) && is_chain(i + 1) && types_[i] == types_[i + 1]; }
  int input(std::size_t i, std::size_t k) const { return order_.value(order_.operators[i]->inputs[k]); }
  std::size_t inputs(std::size_t i) const { return order_.operators[i]->inputs.size(); }

  // A product of a value with itself, which needs it in one place only.
  bool is_square(std::size_t i) const { return order_.operators[i]->op == Op::kMultiply && input(i, 0) == input(i, 1); }

  // Whether the next operator finds all that anybody wants of this one in the accumulator.
  bool is_used_up_by_next(std::size_t i) const {
    const std::vector<int>& users = users_[operands_ + i];
    return joins_next(i) && users.front() == static_cast<int>(i) + 1 && users.back() == users.front() &&
           input(i + 1, 0) == operands_ + static_cast<int>(i) && (users.size() == 1 || is_square(i + 1));
  }

  std::uint16_t take() { return static_cast<std::uint16_t>(operands_ + registers_.take()); }

  void add_to_chain(std::size_t i) {
    const bool goes_on = i > 0 && joins_next(i - 1);
    if (!goes_on) {
      program_.instructions.push_back({nullptr, 0, 0, 0, 0, static_cast<std::uint16_t>(program_.chains.size())});
      program_.chains.push_back({types_[i], {}});
    }
    std::vector<ChainOp>& ops = program_.chains.back().ops;
    const Op op = is_square(i) ? Op::kSquare : order_.operators[i]->op;
    const bool is_there = goes_on && input(i, 0) == operands_ + static_cast<int>(i) - 1;
    if (!is_there) ops.push_back({StepKind::kLoad, op, place_[input(i, 0)]});
    const bool has_right = inputs(i) > 1 && op != Op::kSquare;
    ops.push_back({StepKind::kApply, op, has_right ? place_[input(i, 1)] : std::uint16_t{0}});
    if (is_used_up_by_next(i)) return;
    place_[operands_ + i] = take();
    ops.push_back({StepKind::kStore, op, place_[operands_ + i]});
  }

  void add_kernels(std::size_t i) {
    const Node& node = *order_.operators[i];
    std::uint16_t from[3] = {};
    for (std::size_t k = 0; k < inputs(i); ++k) from[k] = place_[input(i, k)];
    if (node.op == Op::kGreater || node.op == Op::kGreaterEqual) std::swap(from[0], from[1]);
    const std::uint16_t out = take();
    program_.instructions.push_back({kernel_of(node), from[0], from[1], from[2], out});
    place_[operands_ + i] = out;
    if (const Kernel wrap_kernel = find_wrap(node.dtype()); wrap_kernel != nullptr) {
      const std::uint16_t wrapped = take();
      program_.instructions.push_back({wrap_kernel, out, 0, 0, wrapped});
      registers_.give_back(static_cast<std::uint16_t>(out - operands_));
      place_[operands_ + i] = wrapped;
    }
  }

  void give_back_inputs(std::size_t i) {
    std::vector<int> done;
    for (std::size_t k = 0; k < inputs(i); ++k) done.push_back(input(i, k));
    std::sort(done.begin(), done.end());
    done.erase(std::unique(done.begin(), done.end()), done.end());
    for (int value : done) {
      if (value < operands_ || users_[value].back() != static_cast<int>(i) || place_[value] == kNoPlace) continue;
      registers_.give_back(static_cast<std::uint16_t>(place_[value] - operands_));
    }
  }

  const Expression& order_;
  const int operands_;
  Program program_;
  Registers registers_;
  std::vector<std::vector<int>> users_;  // of each value: the operators, in their order
  std::vector<std::uint16_t> place_;     // of each value
  std::vector<Compute> types_;           // that an operator has in a chain
};

void collect(const NodePtr& node, std::vector<NodePtr>& found) {
  if (node->is_leaf()) return;
  if (node->is_operand()) {
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
  Expression order(root);
  const Key key = form(order);
  auto program = cache().get(key, [&] {
    Program made = Compiler(order).compile();
    made.identity = KeyHash{}(key);
    return made;
  });
  return {std::move(program), std::move(order.operands)};
}

CacheStats program_cache_stats() { return cache().stats(); }

}  // namespace ebb::array
