// Writes an expression down, operator by operator, with the functions that it uses before it.
#include "array/source/source.h"

#include <set>

#include "array/graph/expression.h"
#include "array/pass/program.h"
#include "array/source/operators.h"

namespace ebb::array {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

// How elements lie in memory.
const char* stored_name(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "u8";
    case DType::kI8: return "signed char";
    case DType::kI16: return "short";
    case DType::kI32: return "int";
    case DType::kI64: return "i64";
    case DType::kU8: return "u8";
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16: return "u16";
    case DType::kU32: return "u32";
    case DType::kU64: return "u64";
    case DType::kF32: return "f32";
    case DType::kF64: return "f64";
  }
  return "";
}

std::string loaded(DType dtype, const std::string& stored) {
  if (dtype == DType::kBool) return "(u8)(" + stored + " != 0)";
  if (dtype == DType::kF16) return "f16_value(" + stored + ")";
  if (dtype == DType::kBF16) return "bf16_value(" + stored + ")";
  return std::string("(") + source_name(compute_of(dtype)) + ")" + stored;
}

std::string to_store(DType dtype, const std::string& value) {
  if (dtype == DType::kF16) return "f16_bits(" + value + ")";
  if (dtype == DType::kBF16) return "bf16_bits(" + value + ")";
  return std::string("(") + stored_name(dtype) + ")" + value;
}

class Writer {
 public:
  Writer(const Expression& expression, const ShapePtr& result, Dialect dialect)
      : expression_(expression), is_cuda_(dialect == Dialect::kCuda) {
    source_.operands = expression.operands;
    source_.result = result;
    std::vector<Dims> strides;
    for (const NodePtr& operand : expression.operands) {
      strides.push_back(broadcast_strides(*operand->shape, result->sizes));
    }
    strides.push_back(result->strides);
    source_.space = make_space(result->sizes, std::move(strides));
    source_.layout = source_.space.sizes;
    for (std::size_t k = 0; k < source_.space.layouts.size(); ++k) source_.reads.push_back(reads_of(k));
  }

  // A reduction, which goes through the elements in this order.
  Writer(const Expression& expression, const ReduceOrder& order) : expression_(expression), is_cuda_(true) {
    source_.operands = expression.operands;
    Dims natural(order.sizes.size());
    for (std::size_t d = 0; d < natural.size(); ++d) natural[static_cast<std::size_t>(order.order[d])] = order.sizes[d];
    std::vector<Dims> strides;
    for (const NodePtr& operand : expression.operands) {
      strides.push_back(order.ordered(broadcast_strides(*operand->shape, natural)));
    }
    source_.space = make_space(order.sizes, std::move(strides));
    source_.layout = source_.space.sizes;
    for (std::size_t k = 0; k < source_.space.layouts.size(); ++k) source_.reads.push_back(reads_of(k));
  }

  KernelSource write() {
    open();
    element();
    body_ += "  out[" + place_of(source_.operands.size()) + "] = " + to_store(source_.result->dtype, value(last())) +
             ";\n}\n";
    return finish();
  }

  KernelSource write_reduce(Reduce kind, DType dtype) {
    const std::string type = source_name(compute_of(dtype)), total = source_name(accumulator_of(compute_of(dtype)));
    const bool is_arg = kind == Reduce::kArgMin || kind == Reduce::kArgMax;
    const std::string word = is_arg ? "u64" : total;
    body_ =
        "EBB_KERNEL void ebb_reduce(i64 first, i64 count, const Layout layout, i64 length, i64 inner, i64 chunks, "
        "i64 stride, i64 from, " +
        word + " start, " + word + "* totals";
    parameters();
    body_ +=
        ") {\n  const i64 thread = EBB_INDEX;\n  if (thread >= count) return;\n"
        "  const i64 column = thread % inner, chunk = thread / inner % chunks, row = thread / inner / chunks;\n  " +
        word + "* const out = totals + chunk * stride + (row * inner + column) * " + (is_arg ? "2" : "1") + ";\n";
    body_ += is_arg ? "  " + type + " best = from > 0 ? *(" + type + "*)out : (" + type + ")0;\n" +
                          "  u64 at = from > 0 ? out[1] : ~(u64)0;\n"
                    : "  " + total + " total = from > 0 ? *out : start;\n";
    body_ +=
        "  for (i64 r = chunk; r < length; r += chunks) {\n"
        "  const i64 i = (row * length + r) * inner + column;\n";
    element();
    body_ += "  const " + (is_arg ? type : total) + " x = (" + (is_arg ? type : total) + ")" + value(last()) + ";\n";
    body_ += fold(kind, total) + "  }\n";
    body_ += is_arg ? "  *(" + type + "*)out = best;\n  out[1] = at;\n}\n" : "  *out = total;\n}\n";
    return finish();
  }

 private:
  static std::string value(int index) { return "v" + number(index); }
  int last() const { return static_cast<int>(expression_.operands.size() + expression_.operators.size()) - 1; }

  // One more value x, as on the host (reduce_kernels.cc, arg_reduce.cc): integers wrap, a NaN stays.
  static std::string fold(Reduce kind, const std::string& total) {
    const bool is_float = total == source_name(Compute::kF64);
    const auto wrapping = [&](const char* sign) {
      return is_float ? std::string("  total = total ") + sign + " x;\n"
                      : "  total = (" + total + ")((u64)total " + sign + " (u64)x);\n";
    };
    const auto choosing = [](const char* sign) {
      return std::string("  total = x ") + sign + " total || x != x ? x : total;\n";
    };
    const auto first_of = [](const char* sign) {
      return std::string("  if (at == ~(u64)0 || (x != x ? best == best : x ") + sign +
             " best)) {\n    best = x;\n    at = (u64)(from + r);\n  }\n";
    };
    switch (kind) {
      case Reduce::kSum: return wrapping("+");
      case Reduce::kProd: return wrapping("*");
      case Reduce::kMin:
      case Reduce::kAll: return choosing("<");
      case Reduce::kMax:
      case Reduce::kAny: return choosing(">");
      case Reduce::kArgMin: return first_of("<");
      case Reduce::kArgMax: return first_of(">");
    }
    return "";
  }

  // The value of element i: its operands, and what is made of them.
  void element() {
    gather();
    for (std::size_t k = 0; k < expression_.operands.size(); ++k) load(k);
    for (const NodePtr& node : expression_.operators) apply(*node);
  }

  KernelSource finish() {
    if (!is_cuda_)
      source_.text = has_f64_ ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\ntypedef double f64;\n" : "";
    source_.text += is_cuda_ ? cuda_prelude() : opencl_prelude();
    source_.text += common_prelude() + functions_;
    if (is_cuda_) source_.text += "struct Layout { i64 at[" + number(std::ssize(source_.layout)) + "]; };\n";
    source_.text += body_;
    return std::move(source_);
  }

  const char* type_of(DType dtype) {
    has_f64_ = has_f64_ || dtype == DType::kF64;
    return source_name(compute_of(dtype));
  }

  using Reads = KernelSource::Reads;
  Reads reads_of(std::size_t k) const {
    const Layout& layout = source_.space.layouts[k];
    const bool is_result = k == source_.operands.size();
    if (is_cuda_ && !is_result && source_.operands[k]->kind == Kind::kScalar) return Reads::kByValue;
    // A result that seems to repeat has one element.
    if (layout.linear || (is_result && layout.repeats)) return Reads::kInOrder;
    return layout.repeats ? Reads::kRepeated : Reads::kGathered;
  }

  // The entry of the layout with this number.
  std::string entry(std::size_t at) const {
    return (is_cuda_ ? "layout.at[" : "layout[") + number(static_cast<std::int64_t>(at)) + "]";
  }

  // The head of the kernel.
  void open() {
    body_ = "EBB_KERNEL void ebb_pass(i64 first, i64 count, ";
    body_ += std::string(is_cuda_ ? "const Layout layout" : "EBB_GLOBAL const i64* layout") + ", EBB_GLOBAL " +
             stored_name(source_.result->dtype) + "* out";
    type_of(source_.result->dtype);
    parameters();
    body_ += ") {\n  const i64 i = EBB_INDEX;\n  if (i >= count) return;\n";
  }

  void parameters() {
    for (std::size_t k = 0; k < source_.operands.size(); ++k) {
      const bool by_value = source_.reads[k] == Reads::kByValue;
      body_ += std::string(by_value ? ", const " : ", EBB_GLOBAL const ") + stored_name(source_.operands[k]->dtype()) +
               (by_value ? " a" : "* a") + number(static_cast<std::int64_t>(k));
    }
  }

  void gather() {
    std::vector<std::size_t> gathered;
    for (std::size_t k = 0; k < source_.reads.size(); ++k) {
      if (source_.reads[k] == Reads::kGathered) gathered.push_back(k);
    }
    if (gathered.empty()) return;
    body_ += "  i64 rest = first + i, index;\n";
    for (std::size_t k : gathered) {
      body_ += "  i64 " + place_of(k) + " = " + entry(source_.layout.size()) + ";\n";
      first_.push_back(source_.layout.size() + 1);
      const bool is_result = k == source_.operands.size();
      source_.layout.push_back(-(is_result ? source_.result : source_.operands[k]->shape)->lowest);
      const Dims& strides = source_.space.layouts[k].strides;
      source_.layout.insert(source_.layout.end(), strides.begin(), strides.end());
    }
    for (std::size_t d = source_.space.sizes.size(); d-- > 0;) {
      body_ += "  index = rest % " + entry(d) + "; rest /= " + entry(d) + ";\n";
      for (std::size_t g = 0; g < gathered.size(); ++g) {
        body_ += "  " + place_of(gathered[g]) + " += index * " + entry(first_[g] + d) + ";\n";
      }
    }
  }

  // The index of an operand's, or the result's, element.
  std::string place_of(std::size_t k) const {
    switch (source_.reads[k]) {
      case Reads::kInOrder: return "i";
      case Reads::kGathered: return "o" + number(static_cast<std::int64_t>(k));
      default: return "0";
    }
  }

  void load(std::size_t k) {
    const DType dtype = source_.operands[k]->dtype();
    std::string operand = "a" + number(static_cast<std::int64_t>(k));
    if (source_.reads[k] != Reads::kByValue) operand += "[" + place_of(k) + "]";
    body_ += std::string("  const ") + type_of(dtype) + " " + value(static_cast<int>(k)) + " = " +
             loaded(dtype, operand) + ";\n";
  }

  // Adds a function that the kernel calls, once.
  const std::string& use(const std::string& function, const std::string& text) {
    const auto [place, is_new] = used_.insert(function);
    if (is_new) functions_ += text;
    return *place;
  }

  std::string call(const Node& node) {
    const DType from = node.inputs[node.op == Op::kWhere ? 1 : 0]->dtype();
    const Compute type = compute_of(from);
    const auto input = [&](std::size_t k) { return value(expression_.value(node.inputs[k])); };
    if (node.op == Op::kCast) {
      const bool narrow = is_float(node.dtype()) && size_of(node.dtype()) == 2 && type == Compute::kF64;
      const Compute to = compute_of(node.dtype());
      return use(cast_name(type, to, narrow), cast_source(type, to, narrow)) + "(" + input(0) + ")";
    }
    std::string text = use(function_name(node.op, type), function_source(node.op, type)) + "(" + input(0);
    for (std::size_t k = 1; k < node.inputs.size(); ++k) text += ", " + input(k);
    if (node.inputs.size() == 1) text += ", " + input(0);  // functions of one operand ignore a second
    return text + ")";
  }

  void apply(const Node& node) {
    const DType dtype = node.dtype();
    const int index = expression_.value(node);
    const std::string type = type_of(dtype);
    if (is_natural(dtype)) {
      body_ += "  const " + type + " " + value(index) + " = " + call(node) + ";\n";
      return;
    }
    // Exact in its narrow type again, after every operator.
    body_ +=
        "  const " + type + " " + value(index) + " = " + loaded(dtype, "(" + to_store(dtype, call(node)) + ")") + ";\n";
  }

  const Expression& expression_;
  const bool is_cuda_;
  KernelSource source_;
  std::vector<std::size_t> first_;  // in the layout: the strides of gathered operands
  std::set<std::string> used_;
  std::string functions_, body_;
  bool has_f64_ = false;
};

}  // namespace

KernelSource generate_reduce(Reduce kind, const NodePtr& root, const ReduceOrder& order) {
  const Expression expression(root);
  return Writer(expression, order).write_reduce(kind, root->dtype());
}

KernelSource generate(const NodePtr& root, const ShapePtr& result, Dialect dialect) {
  const Expression expression(root);
  return Writer(expression, result, dialect).write();
}

}  // namespace ebb::array
