// Reduction: the order in which a reduction goes through its elements, [outer that stay | reduced | inner that stay],
// and the accumulators of its results. On the host and on devices alike.
//
// Immutable values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "array/kernels/arg_reduce.h"
#include "array/kernels/kernel.h"
#include "array/pass/pass.h"

namespace ebb::array {

struct ReduceOrder {
  std::int64_t outer = 1, reduced = 1, inner = 1;
  Dims sizes;              // of the space
  std::vector<int> order;  // dimension of the expression for each of the space

  std::int64_t outputs() const { return outer * inner; }
  // Strides by dimension of the expression, by dimension of the space.
  Dims ordered(const Dims& strides) const;
};
ReduceOrder reduce_order(const Dims& sizes, const Dims& dims);

// One accumulator for each result: a word, or for argmin and argmax a value and an index.
class Accumulators {
 public:
  Accumulators(Reduce kind, DType dtype);  // of the elements

  bool is_arg() const { return is_arg_; }
  std::size_t words() const { return is_arg_ ? 2 : 1; }
  // What one begins with, and the type of its word.
  std::uint64_t start() const { return start_; }
  Compute type() const { return accumulator_of(type_); }
  const ArgFold& arg() const { return arg_; }

  void clear(std::uint64_t* accumulators, std::size_t count) const;
  // Adds those of another part, whose elements come later, to a total.
  void merge(const std::uint64_t* other, std::size_t count, std::uint64_t* total) const;
  // Writes them to the results from number `first` on.
  void store(const std::uint64_t* accumulators, std::size_t count, const Target& target, std::int64_t first) const;

 private:
  Reduce kind_;
  Compute type_;
  bool is_arg_;
  ArgFold arg_{};
  std::uint64_t start_ = 0;
};

}  // namespace ebb::array
