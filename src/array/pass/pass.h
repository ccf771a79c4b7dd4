// Passes: one read of each input, one write of the output. An elementwise pass writes a program's result to memory; a
// reduce pass folds it over dimensions; both split into tasks by shape alone, so the number of threads changes no bit.
//
// Called with evaluation_mutex() held, on nodes whose operands are all ready.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "array/executor.h"
#include "array/pass/program.h"
#include "array/pass/tiles.h"

namespace ebb::array {

// Where a pass writes: memory with the shape of the pass and any strides.
struct Target {
  std::byte* data;  // of the element with index 0
  ShapePtr shape;
  const Storage* storage;
};

void elementwise_pass(const Combined& combined, const Target& target);
// Reduces the expression, of shape `sizes`, over `dims` into `target` in C order (of the dimensions that stay).
void reduce_pass(Reduce kind, const Combined& combined, const Dims& sizes, const Dims& dims, const Target& target);

// Declares what a pass reads and writes: in pieces, for memory that it goes through in order.
class AccessList {
 public:
  explicit AccessList(std::uint64_t op, const char* label);
  // `linear`: element i is reached after i of `count` elements of the pass.
  void add(const Storage* storage, const std::byte* data, const ShapeInfo& shape, bool linear, bool written);
  const PassAccesses& finish();

 private:
  PassAccesses pass_;
};

std::uint64_t passes_run();
std::uint64_t operators_run();
void count_pass(std::uint32_t operators);

}  // namespace ebb::array
