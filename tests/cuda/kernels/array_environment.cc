// The tests of arrays anywhere (operations_test.cc, reduce_test.cc), with the software device as the place of new ones:
// its memory is so small that most of what a test has is not there at a time.
#include "array_world.h"

namespace ebb {
namespace {

constexpr std::uint32_t kFrames = 16;
constexpr std::uint32_t kHost = 64;

class ArraysOnGpu : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { runtime_ = use_soft_gpu(kFrames, kHost); }
  void OnTestEnd(const testing::TestInfo&) override {
    use_runtime(nullptr);
    runtime_.reset();
    expect_clean();
  }

 private:
  std::shared_ptr<DeviceRuntime> runtime_;
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new ArraysOnGpu);
  return true;
}();

}  // namespace
}  // namespace ebb
