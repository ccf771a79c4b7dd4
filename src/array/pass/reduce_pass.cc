// The reduce pass. The iteration space is ordered [outer that stay | reduced | inner that stay], so that whatever is
// last in memory stays last: sums along rows fold a tile into one number, sums down columns fold rows into a row.
#include <algorithm>

#include "array/pass/reduction.h"

namespace ebb::array {
namespace {

constexpr std::int64_t kTaskElements = 64 * kTileElements;
constexpr std::int64_t kColumns = 8 * kTileElements;  // accumulators of a task: they stay in the cache
constexpr std::int64_t kSplitOutputs = 4096;          // with fewer results, a reduction is split along itself

struct Plan : ReduceOrder {
  std::int64_t chunk = 1;  // of the reduced elements that one task takes
  std::int64_t chunks = 1;
};

Plan make_plan(const Dims& sizes, const Dims& dims) {
  Plan plan{reduce_order(sizes, dims), 1, 1};
  plan.chunk = std::max<std::int64_t>(plan.reduced, 1);
  if (plan.outer * plan.inner <= kSplitOutputs && plan.reduced * plan.inner > 2 * kTaskElements) {
    plan.chunk = std::max<std::int64_t>(1, kTaskElements / plan.inner);
    if (plan.inner == 1) plan.chunk = kTaskElements;
  }
  plan.chunks = std::max<std::int64_t>(1, (plan.reduced + plan.chunk - 1) / plan.chunk);
  return plan;
}

// Folds parts of the space into accumulators; knows nothing of tasks.
class Fold {
 public:
  Fold(Reduce kind, const Combined& combined, const Plan& plan, const Space& space)
      : combined_(combined), plan_(plan), space_(space), accumulators_(kind, combined.program->dtype) {
    if (accumulators_.is_arg()) return;
    const Compute type = compute_of(combined.program->dtype);
    row_ = find_row_reduce(kind, type);
    column_ = find_column_reduce(kind, type);
  }

  const Accumulators& accumulators() const { return accumulators_; }
  std::size_t words() const { return accumulators_.words(); }

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

 private:
  void fold_row(const void* values, std::size_t n, std::int64_t r, std::uint64_t* accumulator) const {
    if (accumulators_.is_arg()) {
      accumulators_.arg().fold(values, 1, n, r, accumulator, true);
    } else {
      row_(values, n, accumulator);
    }
  }

  void fold_columns(const void* values, std::int64_t rows, std::int64_t columns, std::int64_t r,
                    std::uint64_t* accumulators) const {
    const auto m = static_cast<std::size_t>(rows), n = static_cast<std::size_t>(columns);
    if (accumulators_.is_arg()) {
      accumulators_.arg().fold(values, m, n, r, accumulators, false);
    } else {
      column_(values, m, n, accumulators);
    }
  }

  const Combined& combined_;
  const Plan& plan_;
  const Space& space_;
  const Accumulators accumulators_;
  RowReduce row_ = nullptr;
  ColumnReduce column_ = nullptr;
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
    fold.accumulators().clear(accumulators.data(), count);
    if (is_rows) {
      fold.rows(o, end, 0, plan.reduced, accumulators.data());
    } else {
      fold.columns(o, i0, end, 0, plan.reduced, accumulators.data());
    }
    fold.accumulators().store(accumulators.data(), count, target, o * plan.inner + i0);
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
    fold.accumulators().clear(here, static_cast<std::size_t>(plan.inner));
    if (plan.inner == 1) {
      fold.rows(o, o + 1, r0, r1, here);
    } else {
      fold.columns(o, 0, plan.inner, r0, r1, here);
    }
  });
  for (std::int64_t chunk = 1; chunk < plan.chunks; ++chunk) {
    fold.accumulators().merge(partial.data() + static_cast<std::size_t>(chunk) * stride, outputs, partial.data());
  }
  fold.accumulators().store(partial.data(), outputs, target, 0);
}

}  // namespace

Pass make_reduce_pass(Reduce kind, Combined combined, const Dims& sizes, const Dims& dims, Target target) {
  AccessList accesses(combined.program->identity * 31 + static_cast<std::uint64_t>(kind), "array reduction");
  const std::uint32_t operators = combined.program->operators;
  if (target.shape->count == 0) return {std::move(accesses), 0, operators, nullptr};
  const Plan plan = make_plan(sizes, dims);
  std::vector<Dims> strides;
  for (const NodePtr& operand : combined.operands) {
    strides.push_back(plan.ordered(broadcast_strides(*operand->shape, sizes)));
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
