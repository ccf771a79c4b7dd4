// Arrays evaluated in streams: the values of a synchronous evaluation, whoever waits, writes, drops or fails meanwhile.
#include "ebb/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "reference.h"

namespace ebb {
namespace {

using array_test::KeepLimits;
using array_test::random_array;
using array_test::same_bits;

class ArrayStream : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.memory = 48 * kMiB;
    options.flash = testing::TempDir();
    options.flash_bytes = 512 * kMiB;
    options.policy = "window";
    try {
      runtime_ = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << "no runtime can be opened here: " << error.what();
    }
    use_runtime(runtime_);
  }
  void TearDown() override { use_runtime(nullptr); }

  // A launch that waits until open() and uses no memory: what is queued behind it stays queued.
  class Gate {
   public:
    explicit Gate(Stream& stream) {
      stream.launch("gate", {}, [open = open_] {
        while (!open->load()) std::this_thread::yield();
      });
    }
    ~Gate() { open(); }
    void open() { open_->store(true); }

   private:
    std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
  };

  std::shared_ptr<Runtime> runtime_;
};

constexpr std::int64_t kCount = 5 << 20;  // 20 MiB of f32: three launches, and four arrays are more than the budget

TEST_F(ArrayStream, PassesLargerThanTheBudgetGiveTheBitsOfSynchronousOnes) {
  const Array x = uniform({kCount}, 1).evaluate(), y = uniform({kCount}, 2).evaluate();
  const auto expression = [&] { return sqrt(x * x + y * y) - exp(-x) * 2.0; };
  const Array at_once = expression().evaluate();
  const Array reduced_at_once = sum(at_once * y).evaluate();
  Stream stream = runtime_->stream();
  const Array queued = expression().evaluate(stream);
  const Array reduced = sum(queued * y).evaluate(stream);
  const Array next = (queued - 0.5).evaluate(stream);
  stream.synchronize();
  EXPECT_TRUE(same_bits(queued, at_once));
  EXPECT_TRUE(same_bits(reduced, reduced_at_once));
  EXPECT_TRUE(same_bits(next, at_once - 0.5));
  EXPECT_GT(runtime_->stats().prefetched_bytes, 0u);
}

TEST_F(ArrayStream, OnlyWhoNeedsValuesWaits) {
  Stream stream = runtime_->stream();
  const Array x = arange(0, 1000, 1, DType::kF32).evaluate();
  Gate gate(stream);
  const std::uint64_t before = array_stats().operators;
  const Array y = (x * 2.0).evaluate(stream);
  const Array z = (y + x).evaluate(stream);
  const Array total = sum(z).evaluate(stream);
  const Array shares = (z / total).evaluate(stream);  // of a queued reduction, broadcast
  EXPECT_TRUE(y.is_lazy());
  EXPECT_EQ(array_stats().operators, before + 3);  // y is read and not computed again
  EXPECT_FALSE(stream.record().over());
  gate.open();
  EXPECT_EQ(total.item(), 3.0 * 999 * 500);
  EXPECT_EQ(z.to_vector<float>()[999], 2997.0f);
  EXPECT_FLOAT_EQ(shares.to_vector<float>()[999], 2997.0f / (3.0f * 999 * 500));
  EXPECT_FALSE(y.evaluate().is_lazy());
}

TEST_F(ArrayStream, AWriteWaitsForWhatReadsTheOldValues) {
  Stream stream = runtime_->stream();
  Array x = full({3000}, 1.0);
  Array y, z;
  {
    const Array between = x * 3.0;  // in no array of its own: only y reads x
    y = (between + 1.0).evaluate(stream);
  }
  Gate gate(stream);
  z = (x + y).evaluate(stream);
  std::thread opener([&] { gate.open(); });
  x.assign(full({}, 100.0, DType::kF32));
  opener.join();
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(3000, 4.0f));
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(3000, 5.0f));
  EXPECT_EQ(sum(x).item(), 300000.0);
}

TEST_F(ArrayStream, WhatIsQueuedKeepsItsOperands) {
  Stream stream = runtime_->stream();
  Array last;
  {
    Gate gate(stream);
    Array x = full({kCount / 4}, 1.0);
    for (int i = 0; i < 10; ++i) x = (x + 1.0).evaluate(stream);  // all but the last are dropped at once
    last = x;
  }
  EXPECT_EQ(min(last).item(), 11.0);
  EXPECT_EQ(max(last).item(), 11.0);
}

TEST_F(ArrayStream, WhatIsDoneKeepsNothing) {
  Stream stream = runtime_->stream();
  Array x = full({kCount / 4}, 0.0);
  for (int i = 0; i < 300; ++i) x = (x + 1.0).evaluate(stream);  // 1.5 GiB in all, where 0.5 GiB fit
  EXPECT_EQ(min(x).item(), 300.0);
}

TEST_F(ArrayStream, AFailedLaunchLeavesTheArrayLazy) {
  Stream stream = runtime_->stream();
  const Array x = full({4096}, 2.0);
  auto* const data = const_cast<void*>(x.data());
  stream.launch("fails", {updates(data, 4096 * sizeof(float))}, [] { throw std::runtime_error("on purpose"); });
  const Array y = (x * 2.0).evaluate(stream);
  const Array z = (y + 1.0).evaluate(stream);
  EXPECT_THROW(stream.synchronize(), LaunchError);
  EXPECT_TRUE(z.is_lazy());
  EXPECT_EQ(sum(z).item(), 4096.0 * 5);  // computed at once
  const Array again = (y * y).evaluate(stream);
  EXPECT_NO_THROW(stream.synchronize());
  EXPECT_EQ(sum(again).item(), 4096.0 * 16);
}

TEST_F(ArrayStream, KernelsMayEvaluateArraysButNotQueueThem) {
  Stream stream = runtime_->stream();
  const Array x = full({1000}, 1.0);
  double inside = 0;
  bool refused = false;
  stream.launch("evaluates", {}, [&] {
    inside = sum(full({1000}, 2.0)).item();
    try {
      (x + 1.0).evaluate(stream);
    } catch (const Error&) {
      refused = true;
    }
  });
  const Array y = (x + 1.0).evaluate(stream);
  EXPECT_EQ(sum(y).item(), 2000.0);
  EXPECT_EQ(inside, 2000.0);
  EXPECT_TRUE(refused);
}

TEST_F(ArrayStream, MemoryOfTheHeapAndEmptyArrays) {
  use_runtime(nullptr);
  Stream stream = runtime_->stream();
  const Array x = full({100, 200}, 3.0);
  const Array turned = (x.transpose() + arange(0, 100, 1, DType::kF32)).evaluate(stream);
  const Array nothing = (empty({0, 4}) * 2.0).evaluate(stream);
  EXPECT_EQ(turned.shape(), (Dims{200, 100}));
  EXPECT_EQ(sum(turned).item(), 200.0 * (300 + 99 * 50));
  EXPECT_EQ(nothing.to_vector<float>().size(), 0u);
}

// Random expressions, queued in two streams by two threads while the main thread reads some: as if at once.
TEST_F(ArrayStream, RandomExpressionsInTwoStreams) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Dims shape{static_cast<std::int64_t>(rng.between(1, 300)), static_cast<std::int64_t>(rng.between(1, 300))};
    const Array x = random_array(rng, shape, DType::kF32), y = random_array(rng, shape, DType::kF32);
    Stream streams[2] = {runtime_->stream(), runtime_->stream()};
    const auto build = [&](Stream* stream_of_it, std::uint64_t choice) {
      Rng choices(choice);
      Array a = x, b = y;
      for (int i = 0; i < 20; ++i) {
        switch (choices.below(6)) {
          case 0: a = a * 0.5 + b; break;
          case 1: b = maximum(a, b) - 1.0; break;
          case 2: a = a - sum(b, {0}, true) * 0.001; break;
          case 3: b = tanh(b) + max(a, {1}, true); break;
          case 4: std::swap(a, b); break;
          default:
            if (stream_of_it != nullptr) a.evaluate(*stream_of_it);
        }
      }
      return a + b;
    };
    Array queued[2];
    std::thread other([&] { queued[1] = build(&streams[1], seed + 100).evaluate(streams[1]); });
    queued[0] = build(&streams[0], seed).evaluate(streams[0]);
    if (rng.chance(1, 2)) queued[0].evaluate();
    other.join();
    const Array both = (queued[0] * queued[1]).evaluate(streams[0]);
    const Array first = build(nullptr, seed).evaluate(), second = build(nullptr, seed + 100).evaluate();
    ASSERT_TRUE(same_bits(queued[0], first));
    ASSERT_TRUE(same_bits(queued[1], second));
    ASSERT_TRUE(same_bits(both, first * second));
  }
}

}  // namespace
}  // namespace ebb
