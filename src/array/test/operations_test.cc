// Views, tensors along dimensions, indexing, joining, products, convolution, random numbers and files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "reference.h"

namespace ebb {
namespace {

using array_test::count_of;
using array_test::element;
using array_test::here;
using array_test::random_array;
using array_test::random_shape;
using array_test::random_view;

using Ints = std::vector<std::int64_t>;

TEST(Views, ShareMemoryAndCount) {
  Array a = arange(0, 24).evaluate();
  const Array m = a.reshape({2, 3, 4});
  EXPECT_EQ(m.select(0, 1).select(0, -1).to_vector<std::int64_t>(), (Ints{20, 21, 22, 23}));
  EXPECT_EQ(m.slice(2, {{}, {}, -2}).select(0, 0).select(0, 0).to_vector<std::int64_t>(), (Ints{3, 1}));
  EXPECT_EQ(m.slice(1, {5, 9, 1}).size(), 0);
  EXPECT_EQ(m.slice(0, {-1, {}, 1}).shape(), (Dims{1, 3, 4}));
  EXPECT_EQ(m.permute({2, 0, 1}).shape(), (Dims{4, 2, 3}));
  EXPECT_EQ(m.transpose().select(0, 0).select(0, 1).to_vector<std::int64_t>(), (Ints{1, 5, 9}));
  EXPECT_EQ(m.select(0, 0).slice(1, {{}, 3, 1}).diagonal().to_vector<std::int64_t>(), (Ints{0, 5, 10}));
  m.select(0, 0).select(0, 0).assign(full_int({4}, -1));
  EXPECT_EQ(a.slice(0, {{}, 5, 1}).to_vector<std::int64_t>(), (Ints{-1, -1, -1, -1, 4}));
  EXPECT_EQ(a.slice(0, {INT64_MIN, INT64_MAX, 1}).size(), 24);
}

TEST(Views, ReshapeOfAnyViewKeepsTheOrder) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Dims shape = random_shape(rng, 4, 6);
    const Array a = random_view(rng, shape);
    Dims to = shape;
    for (std::size_t d = 0; d + 1 < to.size(); ++d) {  // join, split and reorder factors
      if (rng.chance(1, 2)) to[d] *= to[d + 1], to[d + 1] = 1;
    }
    if (!to.empty() && to[0] % 2 == 0) to[0] /= 2, to.push_back(2);
    const Array b = a.reshape(to);
    ASSERT_EQ(b.shape(), to);
    ASSERT_EQ(b.to_vector<double>(), a.to_vector<double>());
    ASSERT_EQ(a.reshape({-1}).to_vector<double>(), a.to_vector<double>());
  }
}

TEST(Views, TensorsAlongDimensions) {
  const Array a = arange(0, 24).reshape({2, 3, 4});
  const auto rows = a.along({0, 2});
  ASSERT_EQ(rows.count(), 3);
  EXPECT_EQ(rows.shape(), (Dims{2, 4}));
  EXPECT_EQ(rows[1].to_vector<std::int64_t>(), (Ints{4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(a.tensor_along_dimension(5, {2}).to_vector<std::int64_t>(), (Ints{20, 21, 22, 23}));
  EXPECT_EQ(a.along({0, 1, 2}).count(), 1);
  EXPECT_THROW(a.tensor_along_dimension(6, {2}), Error);
  a.tensor_along_dimension(0, {2}).assign(full_int({}, 7));
  EXPECT_EQ(sum(a.select(0, 0).select(0, 0)).item_int(), 28);
}

TEST(Indexing, TakeScatterAndMasks) {
  const Array a = arange(0, 12).reshape({3, 4});
  const Array rows = from_vector<std::int64_t>({2, 0, -1}, {3});
  EXPECT_EQ(take(a, rows, 0).to_vector<std::int64_t>(), (Ints{8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(take(a.transpose(), rows, 1).select(0, 1).to_vector<std::int64_t>(), (Ints{9, 1, 9}));
  EXPECT_THROW(take(a, from_vector<std::int64_t>({3}, {1}), 0), Error);
  EXPECT_THROW(take(a, zeros({1}), 0), Error);
  EXPECT_EQ(scatter(zeros({3}, DType::kI64), from_vector<std::int64_t>({0, 0, 2}, {3}),
                    from_vector<std::int64_t>({5, 6, 7}, {3}), 0, true)
                .to_vector<std::int64_t>(),
            (Ints{11, 0, 7}));
  EXPECT_EQ(scatter(a, from_vector<std::int64_t>({1}, {1}), zeros({3, 1}, DType::kI64), 1)
                .select(1, 1)
                .to_vector<std::int64_t>(),
            (Ints{0, 0, 0}));
  EXPECT_EQ(masked_select(a, binary(Op::kEqual, binary(Op::kRemainder, a, full_int({}, 5)), full_int({}, 0)))
                .to_vector<std::int64_t>(),
            (Ints{0, 5, 10}));
  Array b = a.copy();
  masked_assign(b, b > full_int({}, 9), full_int({}, -1));
  EXPECT_EQ(b.to_vector<std::int64_t>(), (Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1}));
  const auto found = nonzero(a > full_int({}, 9));
  EXPECT_EQ(found[0].to_vector<std::int64_t>(), (Ints{2, 2}));
  EXPECT_EQ(found[1].to_vector<std::int64_t>(), (Ints{2, 3}));
  EXPECT_EQ(take_along(a, argsort(a, 1, true), 1).select(0, 0).to_vector<std::int64_t>(), (Ints{3, 2, 1, 0}));
}

TEST(Indexing, ConcatenateAndStack) {
  const Array a = arange(0, 4).reshape({2, 2}), b = full({2, 1}, 0.5, DType::kF32);
  const Array joined = concatenate({a, b}, 1);
  EXPECT_EQ(joined.dtype(), DType::kF32);
  EXPECT_EQ(joined.to_vector<float>(), (std::vector<float>{0, 1, 0.5, 2, 3, 0.5}));
  EXPECT_EQ(stack({a, a}, 1).shape(), (Dims{2, 2, 2}));
  EXPECT_THROW(concatenate({a, b}, 0), Error);
}

TEST(Sorting, IsStableAndPutsNanLast) {
  const float nan = std::nanf("");
  const Array a = from_vector<float>({3, nan, 1, 3, 2}, {5});
  EXPECT_EQ(argsort(a).to_vector<std::int64_t>(), (Ints{2, 4, 0, 3, 1}));
  EXPECT_EQ(argsort(a, -1, true).to_vector<std::int64_t>(), (Ints{0, 3, 4, 2, 1}));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Array x = random_view(rng, {4, 33}, DType::kI16);
    const auto sorted = sort(x).to_vector<std::int64_t>();
    auto expected = x.to_vector<std::int64_t>();
    for (int r = 0; r < 4; ++r) std::sort(expected.begin() + r * 33, expected.begin() + (r + 1) * 33);
    ASSERT_EQ(sorted, expected);
  }
  EXPECT_EQ(searchsorted(arange(0, 5), from_vector<std::int64_t>({2, 9, -1}, {3})).to_vector<std::int64_t>(),
            (Ints{2, 5, 0}));
}

// Lines longer than what is sorted at once, any strides; the bytes of each element, also of NaN and of zeros.
TEST(Sorting, LongLinesAreMerged) {
  Rng rng(11);
  const std::int64_t length = 140000;
  for (const DType dtype : {DType::kF16, DType::kU8}) {
    SCOPED_TRACE(name(dtype));
    std::vector<double> values(static_cast<std::size_t>(2 * length));
    for (double& value : values) {
      value = static_cast<double>(rng.below(90));
      if (is_float(dtype) && rng.chance(1, 50)) value = rng.chance(1, 2) ? std::nan("") : -0.0;
    }
    const Array a = here(from_memory(values.data(), {length, 2}, DType::kF64).astype(dtype));
    for (const bool descending : {false, true}) {
      const Array order = here(argsort(a, 0, descending)), sorted = here(sort(a, 0, descending));
      ASSERT_TRUE(array_test::same_bits(sorted, take_along(a, order, 0)));
      for (std::int64_t column = 0; column < 2; ++column) {
        Ints expected(static_cast<std::size_t>(length));
        std::iota(expected.begin(), expected.end(), 0);
        std::stable_sort(expected.begin(), expected.end(), [&](std::int64_t x, std::int64_t y) {
          const double u = values[static_cast<std::size_t>(2 * x + column)];
          const double v = values[static_cast<std::size_t>(2 * y + column)];
          return u == u && (v != v || (descending ? v < u : u < v));
        });
        ASSERT_EQ(order.select(1, column).to_vector<std::int64_t>(), expected);
      }
    }
  }
}

TEST(Sorting, SearchesLongListsInTheOrderOfTheValues) {
  const Array list = arange(0, 1100000).astype(DType::kF64) * 0.5;
  const std::vector<double> wanted{3.0, std::nan(""), -1.0, 2.75, 549999.5, 3.0, INFINITY};
  const Array values = from_vector(wanted, {7});
  EXPECT_EQ(searchsorted(list, values).to_vector<std::int64_t>(), (Ints{6, 1100000, 0, 6, 1099999, 6, 1100000}));
  EXPECT_EQ(searchsorted(list, values, true).to_vector<std::int64_t>(), (Ints{7, 1100000, 0, 6, 1100000, 7, 1100000}));
}

TEST(Indexing, MasksWriteRowsOfAnyViewInPlace) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Dims shape{3, 4, 2, 3};
    const auto covered = static_cast<std::ptrdiff_t>(rng.between(1, 4));
    const Array mask = random_view(rng, {shape.begin(), shape.begin() + covered}, DType::kBool);
    Array a = random_view(rng, shape, DType::kF32);
    const auto before = a.to_vector<float>();
    const auto flags = mask.to_vector<bool>();
    Dims sizes{std::count(flags.begin(), flags.end(), true)};
    sizes.insert(sizes.end(), shape.begin() + covered, shape.end());
    if (rng.chance(1, 3)) sizes.erase(sizes.begin());  // one row for all
    const Array values = random_view(rng, sizes, DType::kF64), reader = a + 1.0;
    masked_assign(a, mask, values);
    EXPECT_EQ(reader.to_vector<float>(), (from_vector(before, shape) + 1.0).to_vector<float>());
    const auto given = values.astype(DType::kF32).to_vector<float>(), got = a.to_vector<float>();
    const std::size_t row = before.size() / flags.size();
    for (std::size_t i = 0, k = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], flags[i / row] ? given[k++ % given.size()] : before[i]) << i;
    }
  }
  Array a = arange(0, 6).evaluate();
  masked_assign(a, a < full_int({}, 3), a.slice(0, {3, {}, 1}).flip({0}));  // values in the same memory
  EXPECT_EQ(a.to_vector<std::int64_t>(), (Ints{5, 4, 3, 3, 4, 5}));
  EXPECT_THROW(masked_assign(a, a < full_int({}, 4), full_int({3}, 0)), Error);
  Array repeated = zeros({1}).broadcast_to({3});
  EXPECT_THROW(masked_assign(repeated, ones({3}, DType::kBool), scalar(1.0)), Error);
}

void check_matmul(const Array& a, const Array& b) {
  const Array got = here(matmul(a, b).astype(DType::kF64));
  const Array x = here(a.astype(DType::kF64)), y = here(b.astype(DType::kF64));
  const std::int64_t rows = a.size(-2), depth = a.size(-1), columns = b.size(-1);
  Dims full_a = got.shape(), full_b = got.shape();
  full_a.back() = depth;
  full_b[full_b.size() - 2] = depth;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const std::int64_t batch = i / (rows * columns), r = i / columns % rows, c = i % columns;
    double expected = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      expected += element<double>(x, full_a, (batch * rows + r) * depth + k) *
                  element<double>(y, full_b, (batch * depth + k) * columns + c);
    }
    ASSERT_NEAR(element<double>(got, got.shape(), i), expected, 1e-3);
  }
}

TEST(Matmul, AnyViewsAndBatches) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const DType dtype = seed % 4 == 0 ? DType::kF64 : seed % 4 == 1 ? DType::kI32 : DType::kF32;
    const auto n = [&] { return static_cast<std::int64_t>(rng.between(1, 20)); };
    const std::int64_t rows = n(), depth = n(), columns = n();
    Dims left{2, 3, rows, depth}, right{3, depth, columns};
    if (rng.chance(1, 2)) left[1] = 1;
    check_matmul(random_view(rng, left, dtype), random_view(rng, right, dtype));
  }
  const Array v = arange(0, 4), m = arange(0, 8).reshape({4, 2});
  EXPECT_EQ(matmul(v, v).item_int(), 14);
  EXPECT_EQ(matmul(v, m).to_vector<std::int64_t>(), (Ints{28, 34}));
  EXPECT_EQ(matmul(m.transpose(), v).to_vector<std::int64_t>(), (Ints{28, 34}));
  EXPECT_EQ(matmul(zeros({2, 0}), zeros({0, 3})).to_vector<float>(), std::vector<float>(6, 0.0f));
  EXPECT_EQ(matmul(ones({2, 2}, DType::kBF16), ones({2, 2}, DType::kBF16)).dtype(), DType::kBF16);
}

TEST(Convolution, AgreesWithLoops) {
  Rng rng(5);
  const Array x = here(random_view(rng, {2, 4, 7, 9}, DType::kF32));
  const Array w = here(random_view(rng, {6, 2, 3, 2}, DType::kF32));
  const Array bias = random_array(rng, {6}, DType::kF32);
  const Conv2d options{2, 1, 2, 2};
  const Array y = here(conv2d(x, w, &bias, options));
  ASSERT_EQ(y.shape(), (Dims{2, 6, 3, 5}));
  const auto b = bias.to_vector<double>();
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t n = i / 90, o = i / 15 % 6, row = i / 5 % 3, column = i % 5;
    double expected = b[static_cast<std::size_t>(o)];
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t j = 0; j < 6; ++j) {
        const std::int64_t h = row * 2 - 1 + j / 2 * 2, v = column * 2 - 1 + j % 2 * 2;
        if (h < 0 || h >= 7 || v < 0 || v >= 9) continue;
        expected += static_cast<double>(element<float>(x, x.shape(), ((n * 4 + o / 3 * 2 + c) * 7 + h) * 9 + v)) *
                    static_cast<double>(element<float>(w, w.shape(), (o * 2 + c) * 6 + j));
      }
    }
    ASSERT_NEAR(element<float>(y, y.shape(), i), expected, 1e-3);
  }
  EXPECT_THROW(conv2d(x, w), Error);  // channels without groups do not fit
}

TEST(Random, DependsOnSeedStreamAndPlaceOnly) {
  const Array all = uniform({1000}, 42), start = uniform({10}, 42);
  EXPECT_EQ(start.to_vector<float>(), all.slice(0, {{}, 10, 1}).to_vector<float>());
  EXPECT_NE(uniform({10}, 43).to_vector<float>(), start.to_vector<float>());
  EXPECT_NE(uniform({10}, 42, 1).to_vector<float>(), start.to_vector<float>());
  // Known answer of the paper's reference implementation (Random123, kat_vectors): counter 0, key 0.
  EXPECT_EQ(uniform({4}, 0).to_vector<float>()[0], static_cast<float>(0x6627e8d5u >> 8) * 0x1p-24f);
  const Array n = normal({100000}, 7, 0, DType::kF64);
  EXPECT_NEAR(mean(n).item(), 0.0, 0.02);
  EXPECT_NEAR(variance(n).item(), 1.0, 0.03);
  const Array dice = random_integers(1, 7, {60000}, 1);
  EXPECT_EQ(min(dice).item_int(), 1);
  EXPECT_EQ(max(dice).item_int(), 6);
  EXPECT_NEAR(mean(dice.astype(DType::kF64)).item(), 3.5, 0.05);
  EXPECT_LT(max(uniform({100000}, 3, 0, DType::kBF16)).item(), 1.0);
}

TEST(Creation, RangesAndDiagonals) {
  EXPECT_EQ(arange(5, 0, -2).to_vector<std::int64_t>(), (Ints{5, 3, 1}));
  EXPECT_EQ(linspace(0, 1, 5).to_vector<float>(), (std::vector<float>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(eye(2, 3, 1).to_vector<float>(), (std::vector<float>{0, 1, 0, 0, 0, 1}));
  EXPECT_THROW(arange(0, 1, 0), Error);
}

TEST(Npy, GoesThroughAFileAndRefusesNonsense) {
  const std::string path = testing::TempDir() + "ebb_array_" + std::to_string(getpid()) + ".npy";
  Rng rng(3);
  for (const DType dtype :
       {DType::kBool, DType::kI8, DType::kI32, DType::kU64, DType::kF16, DType::kF32, DType::kF64}) {
    const Array a = random_view(rng, {3, 5}, dtype);
    save_npy(path, a);
    EXPECT_TRUE(array_test::same_bits(load_npy(path), a)) << name(dtype);
  }
  EXPECT_THROW(save_npy(path, zeros({1}, DType::kBF16)), Error);
  const auto write = [&](const std::string& header) {
    std::ofstream file(path, std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
  };
  for (const char* header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "{'descr': '<c8'}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9999999999, 9999999999), }",
                             "nonsense", "{'descr': '>f4', 'fortran_order': False, 'shape': (0,), }"}) {
    write(header);
    EXPECT_THROW(load_npy(path), Error) << header;
  }
  std::remove(path.c_str());
  EXPECT_THROW(load_npy(path), Error);
}

}  // namespace
}  // namespace ebb
