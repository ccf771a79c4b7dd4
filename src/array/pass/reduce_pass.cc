// The reduce pass. The iteration space is ordered [outer that stay | reduced | inner that stay], so that whatever is
// last in memory stays last: sums along rows fold a tile into one number, sums down columns fold rows into a row.
#include <algorithm>
#include <bit>
#include <limits>

#include "array/pass/arg_reduce.h"
#include "array/pass/pass.h"

namespace ebb::array {
namespace {

constexpr std::int64_t kTileElements = static_cast<std::int64_t>(kTile);
constexpr std::int64_t kTaskElements = 64 * kTileElements;
constexpr std::int64_t kColumns = 8 * kTileElements;  // accumulators of a task: they stay in the cache
constexpr std::int64_t kSplitOutputs = 4096;          // with fewer results, a reduction is split along itself

struct Plan {
  std::int64_t outer = 1, reduced = 1, inner = 1;
  Dims sizes;              // of the space
  std::vector<int> order;  // dimension of the expression for each of the space
  std::int64_t chunk = 1;  // of the reduced elements that one task takes
  std::int64_t chunks = 1;
};

Plan make_plan(const Dims& sizes, const Dims& dims) {
  Plan plan;
  const int rank = static_cast<int>(sizes.size());
  const auto is_reduced = [&](int d) { return std::binary_search(dims.begin(), dims.end(), d); };
  int inner_from = rank;
  while (inner_from > 0 && !is_reduced(inner_from - 1)) --inner_from;
  const auto put = [&](int d, std::int64_t& product) {
    plan.order.push_back(d);
    plan.sizes.push_back(sizes[d]);
    product *= sizes[d];
  };
  for (int d = 0; d < inner_from; ++d) {
    if (!is_reduced(d)) put(d, plan.outer);
  }
  for (int d = 0; d < inner_from; ++d) {
    if (is_reduced(d)) put(d, plan.reduced);
  }
  for (int d = inner_from; d < rank; ++d) put(d, plan.inner);
  plan.chunk = std::max<std::int64_t>(plan.reduced, 1);
  if (plan.outer * plan.inner <= kSplitOutputs && plan.reduced * plan.inner > 2 * kTaskElements) {
    plan.chunk = std::max<std::int64_t>(1, kTaskElements / plan.inner);
    if (plan.inner == 1) plan.chunk = kTaskElements;
  }
  plan.chunks = std::max<std::int64_t>(1, (plan.reduced + plan.chunk - 1) / plan.chunk);
  return plan;
}

std::uint64_t start_value(Reduce kind, Compute accumulator) {
  const bool is_f64 = accumulator == Compute::kF64, is_i64 = accumulator == Compute::kI64;
  switch (kind) {
    case Reduce::kProd: return is_f64 ? std::bit_cast<std::uint64_t>(1.0) : 1;
    case Reduce::kMin:
      return is_f64   ? std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity())
             : is_i64 ? static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                      : std::numeric_limits<std::uint64_t>::max();
    case Reduce::kMax:
      return is_f64   ? std::bit_cast<std::uint64_t>(-std::numeric_limits<double>::infinity())
             : is_i64 ? static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::min())
                      : 0;
    case Reduce::kAll: return 1;
    default: return 0;
  }
}

// Folds parts of the space into accumulators; knows nothing of tasks.
class Fold {
 public:
  Fold(Reduce kind, const Combined& combined, const Plan& plan, const Space& space)
      : kind_(kind), combined_(combined), plan_(plan), space_(space) {
    const Compute type = compute_of(combined.program->dtype);
    is_arg_ = kind == Reduce::kArgMin || kind == Reduce::kArgMax;
    if (is_arg_) {
      arg_ = find_arg_fold(kind, type);
    } else {
      row_ = find_row_reduce(kind, type);
      column_ = find_column_reduce(kind, type);
    }
    start_ = start_value(kind, accumulator_of(type));
  }

  std::size_t words() const { return is_arg_ ? 2 : 1; }

  void clear(std::uint64_t* accumulators, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      accumulators[i * words()] = is_arg_ ? 0 : start_;
      if (is_arg_) accumulators[2 * i + 1] = kNoIndex;
    }
  }

  // Reduced elements [r0, r1) of outputs [o0, o1) into one accumulator each; inner must be 1.
  void rows(std::int64_t o0, std::int64_t o1, std::int64_t r0, std::int64_t r1, std::uint64_t* accumulators) const {
    Tiles tiles(*combined_.program, combined_.operands, space_);
    const std::size_t bytes = size_of(compute_of(combined_.program->dtype));
    const std::int64_t length = r1 - r0;
    if (length == 0) return;
    const std::int64_t together = length == plan_.reduced ? std::max<std::int64_t>(1, kTileElements / length) : 1;
    for (std::int64_t o = o0; o < o1; o += together) {
      const std::int64_t count = std::min(together, o1 - o);
      for (std::int64_t r = r0; r < r1; r += kTileElements) {
        const std::int64_t part = std::min(kTileElements, r1 - r);
        const auto* values = static_cast<const std::byte*>(
            tiles.run(o * plan_.reduced + r, static_cast<std::size_t>(count * part), nullptr));
        for (std::int64_t k = 0; k < count; ++k, values += static_cast<std::size_t>(part) * bytes) {
          std::uint64_t* const here = accumulators + static_cast<std::size_t>(o - o0 + k) * words();
          fold_row(values, static_cast<std::size_t>(part), r, here);
        }
      }
    }
  }

  // Reduced elements [r0, r1) of columns [i0, i1) of one outer index.
  void columns(std::int64_t o, std::int64_t i0, std::int64_t i1, std::int64_t r0, std::int64_t r1,
               std::uint64_t* accumulators) const {
    Tiles tiles(*combined_.program, combined_.operands, space_);
    const std::int64_t width = plan_.inner;
    if (width <= kTileElements) {
      const std::int64_t together = kTileElements / width;
      for (std::int64_t r = r0; r < r1; r += together) {
        const std::int64_t count = std::min(together, r1 - r);
        const void* values =
            tiles.run((o * plan_.reduced + r) * width, static_cast<std::size_t>(count * width), nullptr);
        fold_columns(values, count, width, r, accumulators);
      }
      return;
    }
    for (std::int64_t r = r0; r < r1; ++r) {
      for (std::int64_t i = i0; i < i1; i += kTileElements) {
        const std::int64_t count = std::min(kTileElements, i1 - i);
        const void* values = tiles.run((o * plan_.reduced + r) * width + i, static_cast<std::size_t>(count), nullptr);
        fold_columns(values, 1, count, r, accumulators + static_cast<std::size_t>(i - i0) * words());
      }
    }
  }

  // Adds a later part's accumulators to those of the parts before it.
  void merge(const std::uint64_t* later, std::size_t count, std::uint64_t* total) const {
    if (is_arg_) {
      for (std::size_t i = 0; i < count; ++i) arg_.merge(later + 2 * i, total + 2 * i);
      return;
    }
    const Compute type = accumulator_of(compute_of(combined_.program->dtype));
    find_column_reduce(kind_, type)(later, 1, count, total);
  }

  // Writes accumulators to the outputs from number `first` on.
  void store(const std::uint64_t* accumulators, std::size_t count, const Target& target, std::int64_t first) const {
    const DType dtype = target.shape->dtype;
    const Compute to = compute_of(dtype);
    const Compute from = is_arg_ ? Compute::kI64 : accumulator_of(compute_of(combined_.program->dtype));
    alignas(64) std::uint64_t in[kTile] = {}, out[kTile] = {}, exact[kTile] = {};
    for (std::size_t at = 0; at < count; at += kTile) {
      const std::size_t n = std::min(kTile, count - at);
      for (std::size_t i = 0; i < n; ++i) in[i] = accumulators[(at + i) * words() + words() - 1];
      find_cast(from, to, is_float(dtype) && size_of(dtype) == 2)(in, nullptr, nullptr, out, padded(n));
      const Kernel wrap_kernel = find_wrap(dtype);
      if (wrap_kernel != nullptr) wrap_kernel(out, nullptr, nullptr, exact, padded(n));
      const std::int64_t offset = (first + static_cast<std::int64_t>(at)) * static_cast<std::int64_t>(size_of(dtype));
      find_store(dtype)(wrap_kernel != nullptr ? exact : out, target.data + offset, 1, n);
    }
  }

 private:
  void fold_row(const void* values, std::size_t n, std::int64_t r, std::uint64_t* accumulator) const {
    if (is_arg_) {
      arg_.fold(values, 1, n, r, accumulator, true);
    } else {
      row_(values, n, accumulator);
    }
  }

  void fold_columns(const void* values, std::int64_t rows, std::int64_t columns, std::int64_t r,
                    std::uint64_t* accumulators) const {
    const auto m = static_cast<std::size_t>(rows), n = static_cast<std::size_t>(columns);
    if (is_arg_) {
      arg_.fold(values, m, n, r, accumulators, false);
    } else {
      column_(values, m, n, accumulators);
    }
  }

  Reduce kind_;
  const Combined& combined_;
  const Plan& plan_;
  const Space& space_;
  bool is_arg_ = false;
  ArgFold arg_{};
  RowReduce row_ = nullptr;
  ColumnReduce column_ = nullptr;
  std::uint64_t start_ = 0;
};

// Every task reduces whole outputs.
void run_whole(const Fold& fold, const Plan& plan, const Target& target, const TaskRunner& runner) {
  const bool is_rows = plan.inner == 1;
  const std::int64_t per_task =
      is_rows ? std::clamp<std::int64_t>(kTaskElements / std::max<std::int64_t>(plan.reduced, 1), 1, kColumns)
              : std::min(plan.inner, kColumns);
  const std::int64_t parts = is_rows ? 1 : (plan.inner + per_task - 1) / per_task;
  const std::int64_t tasks = is_rows ? (plan.outer + per_task - 1) / per_task : plan.outer * parts;
  runner(tasks, [&](std::int64_t task) {
    const std::int64_t o = is_rows ? task * per_task : task / parts;
    const std::int64_t i0 = is_rows ? 0 : task % parts * per_task;
    const std::int64_t end = is_rows ? std::min(plan.outer, o + per_task) : std::min(plan.inner, i0 + per_task);
    const auto count = static_cast<std::size_t>(is_rows ? end - o : end - i0);
    std::vector<std::uint64_t> accumulators(count * fold.words());
    fold.clear(accumulators.data(), count);
    if (is_rows) {
      fold.rows(o, end, 0, plan.reduced, accumulators.data());
    } else {
      fold.columns(o, i0, end, 0, plan.reduced, accumulators.data());
    }
    fold.store(accumulators.data(), count, target, o * plan.inner + i0);
  });
}

// Few outputs: every task reduces a chunk of each, and the chunks are added in their order.
void run_split(const Fold& fold, const Plan& plan, const Target& target, const TaskRunner& runner) {
  const auto outputs = static_cast<std::size_t>(plan.outer * plan.inner);
  const std::size_t stride = outputs * fold.words();
  std::vector<std::uint64_t> partial(stride * static_cast<std::size_t>(plan.chunks));
  runner(plan.outer * plan.chunks, [&](std::int64_t task) {
    const std::int64_t o = task / plan.chunks, chunk = task % plan.chunks;
    const std::int64_t r0 = chunk * plan.chunk, r1 = std::min(plan.reduced, r0 + plan.chunk);
    std::uint64_t* const here = partial.data() + static_cast<std::size_t>(chunk) * stride +
                                static_cast<std::size_t>(o * plan.inner) * fold.words();
    fold.clear(here, static_cast<std::size_t>(plan.inner));
    if (plan.inner == 1) {
      fold.rows(o, o + 1, r0, r1, here);
    } else {
      fold.columns(o, 0, plan.inner, r0, r1, here);
    }
  });
  for (std::int64_t chunk = 1; chunk < plan.chunks; ++chunk) {
    fold.merge(partial.data() + static_cast<std::size_t>(chunk) * stride, outputs, partial.data());
  }
  fold.store(partial.data(), outputs, target, 0);
}

}  // namespace

Pass make_reduce_pass(Reduce kind, Combined combined, const Dims& sizes, const Dims& dims, Target target) {
  AccessList accesses(combined.program->identity * 31 + static_cast<std::uint64_t>(kind), "array reduction");
  const std::uint32_t operators = combined.program->operators;
  if (target.shape->count == 0) return {std::move(accesses), 0, operators, nullptr};
  const Plan plan = make_plan(sizes, dims);
  std::vector<Dims> strides;
  for (const NodePtr& operand : combined.operands) {
    const Dims natural = broadcast_strides(*operand->shape, sizes);
    Dims ordered;
    for (int d : plan.order) ordered.push_back(natural[d]);
    strides.push_back(std::move(ordered));
  }
  const Space space = make_space(plan.sizes, std::move(strides));
  for (std::size_t k = 0; k < combined.operands.size(); ++k) {
    const Node& node = *combined.operands[k];
    accesses.add(node.storage.get(), node.data(), *node.shape, space.layouts[k].linear, false);
  }
  accesses.add(target.storage, target.data, *target.shape, false, true);
  const auto run = [=](std::int64_t, std::int64_t, const TaskRunner& runner) {
    const Fold fold(kind, combined, plan, space);
    if (plan.chunks > 1) {
      run_split(fold, plan, target, runner);
    } else {
      run_whole(fold, plan, target, runner);
    }
  };
  return {std::move(accesses), 1, operators, run};
}

}  // namespace ebb::array
