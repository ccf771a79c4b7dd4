// Combination: fewer passes, the same bits, bounded expressions, and nothing left behind by what fails.
#include <gtest/gtest.h>

#include <thread>

#include "reference.h"

namespace ebb {
namespace {

using array_test::KeepLimits;
using array_test::random_shape;
using array_test::random_view;
using array_test::same_bits;

// The same random expression from the same seed, whatever the limits are.
Array random_expression(Rng& rng, const Dims& shape, DType dtype, int operators) {
  std::vector<Array> values;
  for (int i = 0; i < 3; ++i) {
    Dims part = shape;
    if (!part.empty() && rng.chance(1, 3)) part[rng.below(part.size())] = 1;
    values.push_back(random_view(rng, part, dtype));
  }
  const Op unary_ops[] = {Op::kNegative, Op::kAbs,     Op::kSquare, Op::kSin,
                          Op::kTanh,     Op::kSigmoid, Op::kFloor,  Op::kExp};
  const Op binary_ops[] = {Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kMaximum, Op::kMinimum, Op::kDivide};
  for (int i = 0; i < operators; ++i) {
    const Array& a = values[rng.below(values.size())];
    const Array& b = values[rng.below(values.size())];
    switch (rng.below(8)) {
      case 0:
      case 1:
      case 2: values.push_back(unary(unary_ops[rng.below(std::size(unary_ops))], a)); break;
      case 3: values.push_back(where(a < b, a, b)); break;
      case 4: values.push_back(a.astype(DType::kF32).astype(dtype)); break;
      default: values.push_back(binary(binary_ops[rng.below(std::size(binary_ops))], a, b)); break;
    }
  }
  return values.back();
}

TEST(Combine, GivesTheBitsOfSingleOperators) {
  const KeepLimits keep;
  const DType types[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const DType dtype = types[seed % 4];
    Rng shapes(seed);
    const Dims shape = random_shape(shapes, 3, seed % 5 == 0 ? 60 : 12);
    set_combine_limits({});
    Rng once(seed), again(seed);
    Array together = random_expression(once, shape, dtype, 12);
    set_combine_limits({1, 1, 0});
    Array alone = random_expression(again, shape, dtype, 12);
    ASSERT_TRUE(same_bits(together, alone));
    if (shape.empty()) continue;
    const Dims dims{static_cast<std::int64_t>(seed % shape.size())};
    set_combine_limits({});
    Rng third(seed);
    const Array reduced = sum(random_expression(third, shape, dtype, 6), dims);
    Rng fourth(seed);
    set_combine_limits({1, 1, 0});
    const Array separately = sum(random_expression(fourth, shape, dtype, 6).evaluate(), dims);
    ASSERT_TRUE(same_bits(reduced, separately));
  }
}

TEST(Combine, AChainIsOnePassAndSoIsTheReductionAtItsEnd) {
  const Array x = uniform({100, 300}, 1).evaluate();
  std::uint64_t before = array_stats().passes;
  const Array y = (exp(x * 2.0 + 1.0) - x) / (x + 3.0);
  EXPECT_TRUE(y.is_lazy());
  EXPECT_EQ(array_stats().passes, before);
  y.evaluate();
  EXPECT_EQ(array_stats().passes, before + 1);
  before = array_stats().passes;
  sum(square(x - 0.5), {1}).evaluate();
  EXPECT_EQ(array_stats().passes, before + 1);
}

TEST(Combine, ManyThreadsOrOneGiveTheSameBits) {
  const KeepLimits keep;
  const Array x = normal({517, 301}, 3).evaluate();
  set_array_threads(1);
  const Array rows = sum(exp(x), {1}).evaluate(), columns = sum(exp(x), {0}).evaluate(), all = sum(exp(x)).evaluate();
  const Array each = (tanh(x) * x).evaluate();
  for (int threads : {2, 3, 5}) {
    set_array_threads(threads);
    EXPECT_TRUE(same_bits(rows, sum(exp(x), {1})));
    EXPECT_TRUE(same_bits(columns, sum(exp(x), {0})));
    EXPECT_TRUE(same_bits(all, sum(exp(x))));
    EXPECT_TRUE(same_bits(each, tanh(x) * x));
  }
}

TEST(Combine, ALongUpdateLoopHoldsNothing) {
  const KeepLimits keep;
  Array x = zeros({1000});
  const std::uint64_t forced = array_stats().forced;
  for (int i = 0; i < 1000; ++i) x += ones({1000});
  EXPECT_GT(array_stats().forced, forced);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, 1000.0f));
  set_combine_limits({1000, 1000, 20 * kKiB});  // by bytes: a sum of six arrays of 4000 is too much
  std::vector<Array> terms;
  for (int i = 0; i < 40; ++i) terms.push_back(full({1000}, 1000.0));
  Array y = zeros({1000});
  const std::uint64_t passes = array_stats().passes;
  for (const Array& term : terms) y += term;
  EXPECT_GE(array_stats().passes, passes + 7);
  EXPECT_EQ(y.to_vector<float>()[999], 40000.0f);
}

TEST(Combine, LargeArraysAreCombinedAllTheSame) {
  const KeepLimits keep;
  set_combine_limits({48, 12, 1000});  // less than one array
  const Array a = uniform({4096}, 1).evaluate(), b = uniform({4096}, 2).evaluate(), c = uniform({4096}, 3).evaluate();
  const std::uint64_t before = array_stats().passes, forced = array_stats().forced;
  sqrt(a * a + b * b - a * b + square(a - b)).evaluate();  // two arrays, however often they are used
  sum((a - b) * (b - c) * (c - a)).evaluate();
  EXPECT_EQ(array_stats().passes, before + 2);
  EXPECT_EQ(array_stats().forced, forced);
}

TEST(Combine, SharedPartsAreComputedOnce) {
  const Array x = uniform({64}, 2).evaluate();
  const Array part = exp(x);
  Array total = part + part * part;
  const std::uint64_t before = array_stats().operators;
  total.evaluate();
  EXPECT_EQ(array_stats().operators, before + 3);
}

TEST(Combine, PartsWrittenDownTwiceAreComputedOnce) {
  const Array x = uniform({64}, 2).evaluate(), y = uniform({64}, 3).evaluate();
  const auto operators_of = [](const Array& a) {
    const std::uint64_t before = array_stats().operators;
    a.evaluate();
    return array_stats().operators - before;
  };
  EXPECT_EQ(operators_of(sin(x * 2.0) * sin(x * 2.0) + sin(x * 2.0)), 4u);
  EXPECT_EQ(operators_of((x - y) / (y - x)), 3u);
  EXPECT_EQ(operators_of(x.astype(DType::kF64) + x.astype(DType::kF64) * 3.0), 3u);
  const Array signs = 1.0 / (x * -0.0) - 1.0 / (x * 0.0);  // the zeros are not the same number
  EXPECT_EQ(operators_of(signs), 5u);
  EXPECT_EQ(signs.to_vector<float>()[0], -std::numeric_limits<float>::infinity());
}

TEST(Combine, WritingThroughAViewKeepsWhatWasReadBefore) {
  Array x = from_vector<float>({1, 2, 3, 4}, {4});
  const Array doubled = x * 2.0;      // still lazy
  const Array later = doubled + 1.0;  // reads `doubled`, not x
  Array view = x.slice(0, {1, 3, 1});
  view.assign(full({}, 9.0, DType::kF32));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 9, 9, 4}));
  EXPECT_EQ(doubled.to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  Array writable = doubled;
  writable.assign(Array(0.0));
  EXPECT_EQ(later.to_vector<float>(), (std::vector<float>{3, 5, 7, 9}));
  x.slice(0, {{}, 3, 1}).assign(x.slice(0, {1, {}, 1}));  // overlapping
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{9, 9, 4, 4}));
  EXPECT_THROW(zeros({1}).broadcast_to({3}).assign(Array(1.0)), Error);
}

TEST(Combine, ProgramsAndShapesHitTheirCachesFromTheSecondIteration) {
  const auto iteration = [](const Array& x) {
    Array y = softmax(x * 0.5 + 1.0);
    y = layer_norm(y, ones({7}), zeros({7})) - mean(x, {0});
    y.along({1})[2].evaluate();
    matmul(y, y.transpose()).evaluate();
    cumulative(Reduce::kSum, y, 0).evaluate();
    const Array z = exp(arange(0, 48 * 32, 1, DType::kF32).reshape({48, 32}) * 0.001) + full({32}, 0.5, DType::kF32);
    return sum(sum(z, {1})).item() + mean(where(z > 1.5, z, -z)).item() + static_cast<double>(z.along({1}).count());
  };
  const Array x = uniform({5, 7}, 4).evaluate();
  const double answer = iteration(x);
  const ArrayStats first = array_stats();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(iteration(x), answer);
  const ArrayStats now = array_stats();
  EXPECT_EQ(now.shapes.misses, first.shapes.misses);
  EXPECT_EQ(now.programs.misses, first.programs.misses);
  EXPECT_EQ(now.tads.misses, first.tads.misses);
  EXPECT_GT(now.shapes.hits, first.shapes.hits);
  EXPECT_GT(now.programs.hits, first.programs.hits);
  EXPECT_GT(now.tads.hits, first.tads.hits);
}

TEST(Combine, CachesAreBounded) {
  const CacheStats before = array_stats().shapes;
  const auto more = static_cast<std::int64_t>(before.capacity) + 100;
  for (std::int64_t i = 0; i < more; ++i) zeros({1}).broadcast_to({i + 1, 1});
  for (std::int64_t size = 1; size <= more; ++size) EXPECT_EQ(empty({size}, DType::kU8).size(), size);
  const CacheStats shapes = array_stats().shapes;
  EXPECT_LE(shapes.entries, shapes.capacity);
  EXPECT_GE(shapes.evictions - before.evictions, 100u);
}

TEST(Combine, ThreadsMayShareExpressions) {
  const Array x = uniform({20000}, 5).evaluate();
  const Array shared = exp(x) + 1.0;
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) results[t] = (shared * 2.0 + sum(shared)).to_vector<float>();
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

}  // namespace
}  // namespace ebb
