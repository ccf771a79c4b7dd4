// Reductions over any set of dimensions, and what is composed of them, against loops over elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "reference.h"

namespace ebb {
namespace {

using array_test::element;
using array_test::here;
using array_test::random_shape;
using array_test::random_view;

// For each output (in C order), the elements that are reduced into it, in order.
std::vector<std::vector<double>> groups(const Array& array, const Dims& dims) {
  const Array a = here(array);
  const Dims& shape = a.shape();
  std::map<std::int64_t, std::vector<double>> found;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    std::int64_t rest = i, number = 0, scale = 1;
    for (int d = a.rank() - 1; d >= 0; --d) {
      const std::int64_t index = rest % shape[d];
      rest /= shape[d];
      if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
      number += index * scale;
      scale *= shape[d];
    }
    found[number].push_back(element<double>(a, shape, i));
  }
  std::vector<std::vector<double>> result;
  for (auto& [number, values] : found) result.push_back(std::move(values));
  return result;
}

TEST(Reduce, AnyDimensionsOfAnyView) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Dims shape = random_shape(rng, 4, seed % 10 == 0 ? 40 : 9);
    const Array a = random_view(rng, shape);
    Dims dims;
    for (int d = 0; d < a.rank(); ++d) {
      if (rng.chance(1, 2)) dims.push_back(d);
    }
    if (dims.empty()) {
      for (int d = 0; d < a.rank(); ++d) dims.push_back(d);
    }
    const auto expected = groups(a, dims);
    const auto sums = sum(a, dims).to_vector<double>(), largest = max(a, dims).to_vector<double>();
    const auto smallest = min(a, dims).to_vector<double>(), means = mean(a, dims).to_vector<double>();
    const auto norms = norm(a, dims).to_vector<double>(), spread = variance(a, dims).to_vector<double>();
    const auto some = any(a > 5.0, dims).to_vector<bool>(), every = all(a > -5.0, dims).to_vector<bool>();
    ASSERT_EQ(sums.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double total = 0, squares = 0, deviation = 0;
      for (double v : expected[i]) total += v, squares += v * v;
      const double average = total / static_cast<double>(expected[i].size());
      for (double v : expected[i]) deviation += (v - average) * (v - average);
      ASSERT_NEAR(sums[i], total, 1e-9);
      ASSERT_NEAR(means[i], average, 1e-9);
      ASSERT_NEAR(norms[i], std::sqrt(squares), 1e-9);
      ASSERT_NEAR(spread[i], deviation / static_cast<double>(expected[i].size()), 1e-9);
      ASSERT_EQ(largest[i], *std::max_element(expected[i].begin(), expected[i].end()));
      ASSERT_EQ(smallest[i], *std::min_element(expected[i].begin(), expected[i].end()));
      ASSERT_EQ(some[i], std::any_of(expected[i].begin(), expected[i].end(), [](double v) { return v > 5; }));
      ASSERT_EQ(every[i], std::all_of(expected[i].begin(), expected[i].end(), [](double v) { return v > -5; }));
    }
  }
}

TEST(Reduce, ArgumentsOfExtremesAreTheFirst) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Dims shape = random_shape(rng, 3, 20);
    shape.push_back(7);
    const Array a = random_view(rng, shape, DType::kI32).astype(DType::kF64).evaluate();  // with many equals
    const int dim = static_cast<int>(rng.below(shape.size()));
    const auto expected = groups(a, {dim});
    const auto high = argmax(a, dim).to_vector<std::int64_t>(), low = argmin(a, dim).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& values = expected[i];
      ASSERT_EQ(high[i], std::max_element(values.begin(), values.end()) - values.begin());
      ASSERT_EQ(low[i], std::min_element(values.begin(), values.end()) - values.begin());
    }
  }
  const float nan = std::nanf("");
  EXPECT_EQ(argmax(from_vector<float>({1, nan, 3, nan}, {4})).item_int(), 1);
  EXPECT_TRUE(std::isnan(max(from_vector<float>({1, nan, 3}, {3})).item()));
  EXPECT_TRUE(std::isnan(min(from_vector<float>({nan, 1, 3}, {3})).item()));
}

TEST(Reduce, LongOnesAreSplitAndExact) {
  const std::int64_t count = 1'000'003;
  const Array x = arange(0, static_cast<double>(count), 1, DType::kI64).evaluate();
  EXPECT_EQ(sum(x).item_int(), count * (count - 1) / 2);
  EXPECT_EQ(argmax(x).item_int(), count - 1);
  EXPECT_EQ(max(x.astype(DType::kF32)).item(), static_cast<double>(count - 1));
  EXPECT_EQ(sum(ones({count})).item(), static_cast<double>(count));  // an f32 sum would stop at 2^24 for more
  const Array columns = ones({200'000, 3}) * from_vector<float>({1, 2, 3}, {3});
  EXPECT_EQ(sum(columns, {0}).to_vector<double>(), (std::vector<double>{200'000, 400'000, 600'000}));
  const Array wide = ones({3, 20'000}) + arange(0, 20'000, 1, DType::kF32);
  EXPECT_EQ(sum(wide, {0}).to_vector<double>()[19'999], 60'000);
}

TEST(Reduce, OfNothing) {
  const Array none = empty({0, 3});
  EXPECT_EQ(sum(none, {0}).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(prod(none, {0}).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(all(none).item(), 1);
  EXPECT_EQ(any(none).item(), 0);
  EXPECT_EQ(sum(none, {1}).size(), 0);
  EXPECT_EQ(sum(Array(3.0)).item(), 3);
}

TEST(Reduce, SumsWidenIntegersAndKeepFloats) {
  const Array small = full_int({1000}, 127, DType::kI8);
  EXPECT_EQ(sum(small).dtype(), DType::kI64);
  EXPECT_EQ(sum(small).item_int(), 127'000);
  EXPECT_EQ(sum(full_int({3}, 1, DType::kBool)).item_int(), 3);
  EXPECT_EQ(sum(full({4096}, 1.0, DType::kF16)).item(), 4096);
  EXPECT_EQ(prod(full_int({3}, 2, DType::kU8)).dtype(), DType::kU64);
  EXPECT_EQ(mean(full({100}, 60000.0, DType::kF16)).item(), 60000);  // the sum would be infinite
}

TEST(Reduce, SoftmaxAndLayerNorm) {
  Rng rng(11);
  const Array x = random_view(rng, {4, 9});
  const auto values = x.to_vector<double>();
  const auto got = softmax(x).to_vector<double>(), logs = log_softmax(x).to_vector<double>();
  const auto normal_rows = layer_norm(x, full({9}, 2.0, DType::kF64), full({9}, 1.0, DType::kF64)).to_vector<double>();
  for (std::size_t r = 0; r < 4; ++r) {
    double total = 0, sum_of = 0, squares = 0;
    for (std::size_t c = 0; c < 9; ++c) total += std::exp(values[r * 9 + c]), sum_of += values[r * 9 + c];
    const double average = sum_of / 9;
    for (std::size_t c = 0; c < 9; ++c) squares += std::pow(values[r * 9 + c] - average, 2);
    for (std::size_t c = 0; c < 9; ++c) {
      const double v = values[r * 9 + c];
      EXPECT_NEAR(got[r * 9 + c], std::exp(v) / total, 1e-12);
      EXPECT_NEAR(logs[r * 9 + c], v - std::log(total), 1e-12);
      EXPECT_NEAR(normal_rows[r * 9 + c], (v - average) / std::sqrt(squares / 9 + 1e-5) * 2 + 1, 1e-12);
    }
  }
  EXPECT_NEAR(sum(softmax(full({5}, 1e30))).item(), 1.0, 1e-6);  // does not overflow
}

TEST(Reduce, Cumulative) {
  const Array a = from_vector<std::int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(cumulative(Reduce::kSum, a, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(cumulative(Reduce::kProd, a, 0).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3, 4, 10, 18}));
  EXPECT_EQ(cumulative(Reduce::kMax, a.flip({1}), -1).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{3, 3, 3, 6, 6, 6}));
  EXPECT_EQ(cumulative(Reduce::kSum, empty({0}), 0).size(), 0);
}

}  // namespace
}  // namespace ebb
