// Arrays in the memory of a Runtime: larger than its budget, and out of room.
#include <gtest/gtest.h>

#include "ebb/runtime.h"
#include "reference.h"

namespace ebb {
namespace {

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

}  // namespace
}  // namespace ebb
