// DeviceRuntime on the software driver: tensors larger than GPU and host memory keep their content, streams stay in
// order, and every failure is a message, not a hang.
#include <gtest/gtest.h>

#include <thread>

#include "base/test/in_a_child.h"
#include "drivers/cuda/cuda_api.h"
#include "gpu_fixture.h"

namespace ebb {
namespace {

class GpuRuntimeTest : public GpuFixture {
 protected:
  void open(const Options& options) { runtime_ = DeviceRuntime::open(options); }
  // Writes `count` tensors of so many bytes, and reads them back in the same order, twice.
  void cycle(std::size_t count, std::size_t bytes) {
    void* const on = stream();
    std::vector<void*> tensors;
    for (std::size_t i = 0; i < count; ++i) {
      tensors.push_back(runtime_->allocate(bytes));
      write(on, tensors.back(), bytes, i);
    }
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < count; ++i) check(on, tensors[i], bytes, i);
    }
    runtime_->synchronize();
    EXPECT_EQ(wrong_, 0u);
    for (void* tensor : tensors) runtime_->deallocate_on(tensor, on);
  }
  std::string refusal(const Options& options, Status status = Status::kInvalid) {
    return said(status, [&] { DeviceRuntime::open(options); });
  }
};

TEST_F(GpuRuntimeTest, FitsInDeviceMemory) {
  open(gpu_options(16, 8));
  cycle(4, 2 * kGpuBlock);
  EXPECT_EQ(runtime_->stats().evicted_bytes, 0u);
}

TEST_F(GpuRuntimeTest, LargerThanDeviceMemory) {
  open(gpu_options(8, 64));
  cycle(16, 2 * kGpuBlock);
  EXPECT_GT(runtime_->stats().evicted_bytes, 16 * kGpuBlock);
  EXPECT_EQ(runtime_->stats().resident_bytes, 8 * kGpuBlock);
}

TEST_F(GpuRuntimeTest, LargerThanDeviceAndHostMemory) {
  open(gpu_options(8, 6));
  cycle(24, kGpuBlock);
  EXPECT_GT(runtime_->stats().flash_bytes + runtime_->stats().evicted_bytes, 16 * kGpuBlock);
}

TEST_F(GpuRuntimeTest, WithoutHostTier) {
  open(gpu_options(8, 0));
  cycle(24, kGpuBlock);
}

TEST_F(GpuRuntimeTest, SmallTensorsShareBlocks) {
  open(gpu_options(8, 4));
  cycle(200, 4096);
}

TEST_F(GpuRuntimeTest, RuntimeOpenDispatches) {
  const std::shared_ptr<Runtime> runtime = Runtime::open(gpu_options(8, 4));
  EXPECT_NE(dynamic_cast<DeviceRuntime*>(runtime.get()), nullptr);
  EXPECT_NE(runtime->description().find("software device"), std::string::npos);
  void* const data = runtime->allocate(100);
  EXPECT_TRUE(runtime->manages(data));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 512, 0u);
  const Access access{data, 100, data};
  const std::uint64_t ticket = runtime->announce(3, {&access, 1});
  EXPECT_NE(ticket, 0u);
  runtime->retire(ticket);
  runtime->step();
  runtime->deallocate(data);
  EXPECT_EQ(runtime->stats().live_bytes, 0u);
}

TEST_F(GpuRuntimeTest, ForesightFollowsIterations) {
  Options options = gpu_options(8, 16);
  options.policy = "foresight";
  open(options);
  void* const on = stream();
  std::vector<void*> weights;
  for (std::size_t i = 0; i < 12; ++i) {
    weights.push_back(runtime_->allocate(kGpuBlock));
    write(on, weights.back(), kGpuBlock, i);
  }
  for (int iteration = 0; iteration < 6; ++iteration) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      void* const activation = runtime_->allocate(kGpuBlock);
      write(on, activation, kGpuBlock, 100 + i);
      check(on, weights[i], kGpuBlock, i);
      check(on, activation, kGpuBlock, 100 + i);
      runtime_->deallocate_on(activation, on);
    }
    runtime_->step();
  }
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
  EXPECT_EQ(runtime_->stats().steps, 6u);
}

TEST_F(GpuRuntimeTest, MemoryGoesFromStreamToStream) {
  open(gpu_options(8, 4));
  void* const one = stream();
  void* const two = stream();
  for (std::uint64_t i = 0; i < 40; ++i) {
    void* const a = runtime_->allocate(3 * kGpuBlock / 2);
    write(one, a, 3 * kGpuBlock / 2, i);
    check(one, a, 3 * kGpuBlock / 2, i);
    runtime_->deallocate_on(a, one);
    // Whoever has it next is in another stream, and nothing but the runtime orders the two.
    void* const b = runtime_->allocate(3 * kGpuBlock / 2);
    write(two, b, 3 * kGpuBlock / 2, i + 1000);
    check(two, b, 3 * kGpuBlock / 2, i + 1000);
    runtime_->deallocate_on(b, two);
  }
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

// Freed after its kernel was started, while the launch is still open, and used anew in another stream at once.
TEST_F(GpuRuntimeTest, MemoryFreedWithinALaunch) {
  open(gpu_options(8, 4));
  void* const one = stream();
  void* const two = stream();
  for (void* const freed_in : {one, two}) {
    void* const a = runtime_->allocate(kGpuBlock);
    const Access access{a, kGpuBlock, a};
    const std::uint64_t ticket = runtime_->announce_on(one, 1, {&access, 1});
    const soft::Touch touch{a, kGpuBlock, true};
    EXPECT_EQ(soft::launch(one, {&touch, 1}, [=] { write_words(a, kGpuBlock, 1); }), 0);
    runtime_->deallocate_on(a, freed_in);
    void* const b = runtime_->allocate(kGpuBlock);
    ASSERT_EQ(a, b);
    write(two, b, kGpuBlock, 2);
    runtime_->retire(ticket);
    check(two, b, kGpuBlock, 2);
    runtime_->synchronize();
    runtime_->deallocate_on(b, two);
  }
  EXPECT_EQ(wrong_, 0u);
}

// Started after a launch, without one, in the stream that the free names.
TEST_F(GpuRuntimeTest, FreeingMarksItsStream) {
  open(gpu_options(8, 4));
  void* const one = stream();
  void* const two = stream();
  void* const a = runtime_->allocate(kGpuBlock);
  write(one, a, kGpuBlock, 1);
  const soft::Touch touch{a, kGpuBlock, false};
  EXPECT_EQ(soft::launch(one, {&touch, 1}, [] {}), 0);  // it is still there, as nothing else has come
  runtime_->deallocate_on(a, one);
  void* const b = runtime_->allocate(kGpuBlock);
  ASSERT_EQ(a, b);
  write(two, b, kGpuBlock, 2);
  runtime_->synchronize();
  runtime_->deallocate_on(b, two);
}

TEST_F(GpuRuntimeTest, MoreStreamsThanLines) {
  open(gpu_options(8, 4));
  for (std::uint64_t i = 0; i < 24; ++i) {
    void* const on = stream();
    void* const data = runtime_->allocate(kGpuBlock);
    write(on, data, kGpuBlock, i);
    check(on, data, kGpuBlock, i);
    runtime_->deallocate_on(data, on);
  }
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

TEST_F(GpuRuntimeTest, NestedLaunches) {
  open(gpu_options(8, 8));
  void* const on = stream();
  void* const outer = runtime_->allocate(4 * kGpuBlock);
  const Access access{outer, 4 * kGpuBlock, outer};
  const std::uint64_t ticket = runtime_->announce_on(on, 9, {&access, 1});
  for (std::uint64_t i = 0; i < 8; ++i) {
    void* const inner = runtime_->allocate(2 * kGpuBlock);
    write(on, inner, 2 * kGpuBlock, i);
    check(on, inner, 2 * kGpuBlock, i);
    runtime_->deallocate_on(inner, on);
  }
  // What the outer one announced is still there.
  const soft::Touch touch{outer, 4 * kGpuBlock, true};
  EXPECT_EQ(soft::launch(on, {&touch, 1}, [=] { write_words(outer, 4 * kGpuBlock, 5); }), 0);
  runtime_->retire(ticket);
  check(on, outer, 4 * kGpuBlock, 5);
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

TEST_F(GpuRuntimeTest, ThreadsWithStreamsOfTheirOwn) {
  open(gpu_options(16, 16));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    void* const on = stream();
    threads.emplace_back([this, on, t] {
      std::vector<void*> tensors;
      for (std::uint64_t i = 0; i < 12; ++i) {
        tensors.push_back(runtime_->allocate(kGpuBlock));
        write(on, tensors.back(), kGpuBlock, t * 100 + i);
      }
      for (std::uint64_t i = 0; i < 12; ++i) check(on, tensors[i], kGpuBlock, t * 100 + i);
      for (void* tensor : tensors) runtime_->deallocate_on(tensor, on);
    });
  }
  for (std::thread& thread : threads) thread.join();
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

TEST_F(GpuRuntimeTest, LaunchesThatAreOpenAtTheEndLeaveNothing) {
  open(gpu_options(8, 8));
  void* const on = stream();
  void* const data = runtime_->allocate(kGpuBlock);
  const Access access{data, kGpuBlock, data};
  EXPECT_NE(runtime_->announce_on(on, 1, {&access, 1}), 0u);
}

TEST_F(GpuRuntimeTest, LaunchLargerThanDeviceMemoryIsRefused) {
  open(gpu_options(8, 32));
  void* const on = stream();
  void* const large = runtime_->allocate(12 * kGpuBlock);
  const Access access{large, 12 * kGpuBlock, large};
  const std::string why = said(Status::kNoMemory, [&] { runtime_->announce_on(on, 1, {&access, 1}); });
  EXPECT_PRED2(contains, why, "--device-memory");
  EXPECT_EQ(runtime_->announce(1, {&access, 1}), 0u);
  EXPECT_FALSE(runtime_->failure().empty());
  // In parts it works.
  for (std::size_t i = 0; i < 12; ++i) {
    auto* const part = static_cast<std::byte*>(large) + i * kGpuBlock;
    EXPECT_EQ(run_kernel(*runtime_, on, 1, {{part, kGpuBlock, true, large}}, [=] { write_words(part, kGpuBlock, 3); }),
              0);
  }
  runtime_->synchronize();
}

TEST_F(GpuRuntimeTest, AllocationBeyondAllTiersIsRefused) {
  open(gpu_options(8, 4, "1MiB"));
  EXPECT_PRED2(contains, said(Status::kNoMemory, [&] { runtime_->allocate(100 * kGpuBlock); }), "GPU memory");
}

TEST_F(GpuRuntimeTest, StrictModeFindsWhatIsNotAnnounced) {
  Options options = gpu_options(8, 4);
  options.device_strict = true;
  open(options);
  void* const on = stream();
  void* const data = runtime_->allocate(kGpuBlock);
  write(on, data, kGpuBlock, 1);
  check(on, data, kGpuBlock, 1);
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
  // In memory it is, but no launch has announced it.
  EXPECT_EQ(soft::launch(on, {}, [=] { write_words(data, kGpuBlock, 2); }), 0);
  EXPECT_EQ(soft::wait_for(on), cuda::kIllegalAddress);
  const Access access{data, kGpuBlock, data};
  const std::string why = said(Status::kIoError, [&] { runtime_->announce_on(on, 7, {&access, 1}); });
  EXPECT_PRED2(contains, why, "CUDA_ERROR_ILLEGAL_ADDRESS");
  runtime_.reset();
  soft::take_violations();
  soft::reset();
  streams_.clear();
}

TEST_F(GpuRuntimeTest, StrictModeRunsProgramsThatAnnounceAll) {
  Options options = gpu_options(8, 6);
  options.device_strict = true;
  open(options);
  cycle(24, kGpuBlock);
}

TEST_F(GpuRuntimeTest, LostDeviceIsToldAndNothingHangs) {
  open(gpu_options(8, 4));
  void* const on = stream();
  void* const data = runtime_->allocate(4 * kGpuBlock);
  write(on, data, 4 * kGpuBlock, 1);
  soft::lose(cuda::kUncorrectable);
  const Access access{data, kGpuBlock, data};
  EXPECT_THROW(runtime_->synchronize(), Error);
  EXPECT_THROW(static_cast<void>(runtime_->announce_on(on, 1, {&access, 1})), Error);
  EXPECT_THROW(runtime_->allocate(kGpuBlock), Error);
  EXPECT_EQ(runtime_->announce(1, {&access, 1}), 0u);
  EXPECT_NE(runtime_->failure().find("CUDA_ERROR_ECC_UNCORRECTABLE"), std::string::npos) << runtime_->failure();
  runtime_->deallocate_on(data, on);
  runtime_.reset();
  soft::take_violations();
  soft::reset();
  streams_.clear();
}

TEST_F(GpuRuntimeTest, ForkedChildIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator may be locked for ever in the child of a process with threads";
#endif
  open(gpu_options(8, 4));
  void* const data = runtime_->allocate(kGpuBlock);
  expect_end(in_a_child(60, [&] {
    try {
      runtime_->allocate(kGpuBlock);
    } catch (const Error& error) {
      runtime_->deallocate(data);
      runtime_.reset();
      return error.status() == Status::kUnsupported ? 0 : 2;
    }
    return 1;
  }));
  runtime_->deallocate(data);
}

TEST_F(GpuRuntimeTest, NonsenseIsRefusedWithTheRemedy) {
  Options options = gpu_options(8, 4);
  options.policy = "on_demand";
  EXPECT_PRED2(contains, refusal(options), "page faults");
  options = gpu_options(8, 4);
  options.device_memory = kGpuBlock;
  EXPECT_PRED2(contains, refusal(options), "--device-memory");
  options = gpu_options(8, 4);
  options.memory = kGpuBlock;
  EXPECT_PRED2(contains, refusal(options), "--memory");
  options = gpu_options(8, 4);
  options.block_bytes = 3 * kKiB;
  EXPECT_PRED2(contains, refusal(options), "power of two");
  options = gpu_options(8, 4);
  options.policy = "nonsense";
  EXPECT_PRED2(contains, refusal(options), "foresight");
  std::byte host[64];
  open(gpu_options(8, 4));
  EXPECT_THROW(runtime_->adopt(host), Error);
}

TEST_F(GpuRuntimeTest, AGpuWithoutVirtualMemoryIsRefused) {
  soft::Machine machine;
  machine.virtual_memory = false;
  soft::reset(machine);
  const std::string why = refusal(gpu_options(8, 4), Status::kUnsupported);
  EXPECT_PRED2(contains, why, "tensors cannot live on a GPU: the GPU 'software device' has no virtual memory API");
  EXPECT_PRED2(contains, why, "EBB_DEVICE");
}

// Every call to the driver fails once, in turn: the runtime says so, or goes on; it never gives wrong data, never hangs
// and never uses the device wrongly.
TEST_F(GpuRuntimeTest, AnyCallMayFail) {
  std::uint64_t refused = 0;
  std::uint64_t nth = 1;
  for (bool reached = true; reached; nth += 1 + nth / 6) {
    soft::reset();
    streams_.clear();
    soft::fail_call(nth, nth % 2 == 0 ? cuda::kOutOfMemory : cuda::kInvalidValue);
    wrong_ = 0;
    try {
      open(gpu_options(8, 3));
      cycle(14, kGpuBlock);
    } catch (const Error& error) {
      ++refused;
      EXPECT_FALSE(std::string(error.what()).empty());
    }
    runtime_.reset();
    for (const std::string& violation : soft::take_violations()) ADD_FAILURE() << "call " << nth << ": " << violation;
    EXPECT_EQ(wrong_, 0u) << "call " << nth;
    reached = soft::calls() >= nth;
  }
  EXPECT_GT(refused, 10u);
  EXPECT_GT(nth, 100u);
  soft::reset();
  streams_.clear();
}

}  // namespace
}  // namespace ebb
