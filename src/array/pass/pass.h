// Passes: one read of each input, one write of the output. An elementwise pass writes a program's result to memory; a
// reduce pass folds it over dimensions; both split into tasks by shape alone, so the number of threads changes no bit.
//
// Made with evaluation_mutex() held, on nodes that have memory. Run once, by any thread, when the values of the
// operands are there, and not changed by that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "array/kernels/kernel.h"
#include "array/pass/access_list.h"
#include "array/pass/executor.h"
#include "array/pass/program.h"
#include "array/pass/tiles.h"

namespace ebb::array {

inline constexpr auto kTileElements = static_cast<std::int64_t>(kTile);

// Where a pass writes: memory with the shape of the pass and any strides. Whoever runs the pass keeps it.
struct Target {
  std::byte* data;  // of the element with index 0
  ShapePtr shape;
  const Storage* storage;
};

// Calls task(0) … task(count - 1), in any order and together, and returns when all are done.
using TaskRunner = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& task)>;

struct Pass {
  AccessList accesses;
  std::int64_t count = 0;  // parts that may be run by themselves: elements of an elementwise pass; 1; 0: nothing to do
  std::uint32_t operators = 0;
  // Parts [first, end); `first` is a multiple of kTile. Holds the operands.
  std::function<void(std::int64_t first, std::int64_t end, const TaskRunner& runner)> run;
};

Pass make_elementwise_pass(Combined combined, Target target);
// Reduces the expression, of shape `sizes`, over `dims` into `target` in C order (of the dimensions that stay).
Pass make_reduce_pass(Reduce kind, Combined combined, const Dims& sizes, const Dims& dims, Target target);
// All of it, on the pool, with its accesses announced.
void run(const Pass& pass);

std::uint64_t passes_run();
std::uint64_t operators_run();
void count_pass(std::uint32_t operators);

}  // namespace ebb::array
