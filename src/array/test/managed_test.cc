// Arrays in the memory of a Runtime: larger than its budget, and out of room.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "ebb/runtime.h"
#include "reference.h"

namespace {

std::atomic<std::size_t> largest_request{0};

void* counted(std::size_t bytes) {
  for (std::size_t most = largest_request; bytes > most && !largest_request.compare_exchange_weak(most, bytes);) {
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// The heap of the C++ library, which is not in the budget: how much is asked of it at once. Not inlined, where GCC
// would see half of a pair and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* const memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ebb {
namespace {

constexpr std::size_t kAtOnce = 2 * kMiB;  // of the heap, for what works on a part after the other

std::shared_ptr<Runtime> open_or_skip(std::uint64_t memory, std::uint64_t flash) {
  Options options;
  options.memory = memory;
  options.flash = testing::TempDir();
  options.flash_bytes = flash;
  options.policy = "window";
  try {
    return Runtime::open(options);
  } catch (const Error& error) {
    std::puts(error.what());
    return nullptr;  // a machine without userfaultfd or a disk for the test
  }
}

struct InUse {
  explicit InUse(const std::shared_ptr<Runtime>& runtime) { use_runtime(runtime); }
  ~InUse() { use_runtime(nullptr); }
};

TEST(Managed, ArraysLargerThanTheBudget) {
  const auto runtime = open_or_skip(24 * kMiB, 256 * kMiB);
  if (runtime == nullptr) GTEST_SKIP() << "no runtime can be opened here";
  const InUse in_use(runtime);
  const std::int64_t count = 4 << 20;  // 16 MiB each
  const Array x = arange(0, static_cast<double>(count), 1, DType::kF64).astype(DType::kF32).evaluate();
  EXPECT_TRUE(runtime->manages(x.data()));
  const Array y = (x * 2.0 + 1.0).evaluate();
  EXPECT_EQ(sum(y - x * 2.0).item(), static_cast<double>(count));
  EXPECT_EQ(max(y).item(), 2.0 * static_cast<double>(count - 1) + 1.0);
  EXPECT_GT(runtime->stats().launches, 0u);
  EXPECT_GT(runtime->stats().evicted_bytes + runtime->stats().clean_bytes, 0u);
}

TEST(Managed, AnEvaluationThatFailsMayBeTriedAgain) {
  const auto runtime = open_or_skip(20 * kMiB, 32 * kMiB);
  if (runtime == nullptr) GTEST_SKIP() << "no runtime can be opened here";
  const Array x = ones({8 << 20});  // 32 MiB, from the heap
  const Array y = x + 1.0;
  {
    const InUse in_use(runtime);
    const Array most = empty({6 << 20}).evaluate();
    EXPECT_THROW(y.evaluate(), Error);
    EXPECT_TRUE(y.is_lazy());
  }
  EXPECT_EQ(sum(y).item(), 2.0 * (8 << 20));
}

TEST(Managed, SortsSearchesAndIndexesWithoutTheHeap) {
  const auto runtime = open_or_skip(40 * kMiB, 512 * kMiB);
  if (runtime == nullptr) GTEST_SKIP() << "no runtime can be opened here";
  const InUse in_use(runtime);
  const std::int64_t count = 3 << 18;  // 6 MiB of numbers
  const Array x = random_integers(0, 1000, {count}, 1, 0, DType::kI32).evaluate();
  largest_request = 0;
  const Array order = argsort(x), sorted = sort(x);
  EXPECT_TRUE(all(equal(take(x, order, 0), sorted)).item());
  const auto neighbours = [&](const Array& a) { return std::pair(a.slice(0, {{}, -1, 1}), a.slice(0, {1, {}, 1})); };
  const auto [low, high] = neighbours(sorted);
  const auto [before, after] = neighbours(order);
  EXPECT_TRUE(all(where(equal(low, high), before < after, low < high)).item());  // stable, too
  const Array left = searchsorted(sorted, x), right = searchsorted(sorted, x, true);
  EXPECT_TRUE(all(equal(take(sorted, left, 0), x)).item());
  EXPECT_TRUE(all(equal(take(sorted, right - full_int({}, 1), 0), x)).item());
  EXPECT_EQ(nonzero(x < full_int({}, 500))[0].size(), sum(x < full_int({}, 500)).item_int());
  Array marked = x.copy();
  masked_assign(marked, x < full_int({}, 500), scalar_int(-1));
  EXPECT_TRUE(all(equal(marked, where(x < full_int({}, 500), full_int({}, -1), x))).item());
  EXPECT_LT(largest_request, kAtOnce);
  EXPECT_GT(runtime->stats().evicted_bytes + runtime->stats().clean_bytes, 0u);
}

TEST(Managed, AMaskedAssignmentNeedsNoCopy) {
  const auto runtime = open_or_skip(20 * kMiB, 32 * kMiB);
  if (runtime == nullptr) GTEST_SKIP() << "no runtime can be opened here";
  const InUse in_use(runtime);
  Array x = ones({7 << 20});
  const Array mask = (arange(0, 7) < full_int({}, 3)).reshape({7, 1}).broadcast_to({7, 1 << 20}).reshape({-1});
  masked_assign(x, mask, scalar(5.0));
  EXPECT_EQ(sum(x).item(), 5.0 * (3 << 20) + (4 << 20));
}

}  // namespace
}  // namespace ebb
