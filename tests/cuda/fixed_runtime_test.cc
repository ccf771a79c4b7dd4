// DeviceRuntime where there is no virtual memory API: allocations keep their place, in GPU memory and then in host
// memory, are handed out again only when nothing uses them, and every failure is a message.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/rng.h"
#include "base/test/in_a_child.h"
#include "drivers/cuda/cuda_fixed.h"
#include "ebb/array.h"
#include "gpu_fixture.h"
#include "watched_runtime.h"

namespace ebb {
namespace {

class FixedRuntimeTest : public GpuFixture {
 protected:
  soft::Machine machine() const override {
    soft::Machine machine;
    machine.virtual_memory = false;
    return machine;
  }
  // So many blocks of GPU memory, and of host memory.
  void open(std::uint32_t frames, std::uint32_t host) {
    Options options = gpu_options(frames, 0);
    options.memory = host * kGpuBlock;
    runtime_ = DeviceRuntime::open(options);
  }
};

TEST_F(FixedRuntimeTest, SaysWhatItIs) {
  open(8, 8);
  EXPECT_NE(runtime_->description().find("keep their place"), std::string::npos) << runtime_->description();
  EXPECT_EQ(runtime_->policy(), "fixed");
  EXPECT_EQ(runtime_->stats().budget_bytes, 16 * kGpuBlock);
}

TEST_F(FixedRuntimeTest, GpuMemoryFirstThenHostMemory) {
  open(8, 16);
  void* const on = stream();
  std::vector<void*> tensors;
  for (std::size_t i = 0; i < 12; ++i) {
    tensors.push_back(runtime_->allocate(2 * kGpuBlock));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensors.back()) % 512, 0u);
    EXPECT_TRUE(runtime_->manages(tensors.back()));
    write(on, tensors.back(), 2 * kGpuBlock, i);
  }
  EXPECT_THROW(runtime_->allocate(2 * kGpuBlock), Error);
  for (std::size_t i = 0; i < 12; ++i) check(on, tensors[i], 2 * kGpuBlock, i);
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
  EXPECT_EQ(runtime_->stats().live_bytes, 24 * kGpuBlock);
  for (void* tensor : tensors) runtime_->deallocate_on(tensor, on);
  EXPECT_EQ(runtime_->stats().live_bytes, 0u);
  EXPECT_FALSE(runtime_->manages(&wrong_));
}

// Another stream gets the memory of a tensor that a slow kernel still writes: only when that is over.
TEST_F(FixedRuntimeTest, FreedMemoryIsHandedOutWhenNothingUsesIt) {
  open(8, 1);
  void* const slow = stream();
  void* const other = stream();
  for (int round = 0; round < 20; ++round) {
    void* const first = runtime_->allocate(8 * kGpuBlock);
    EXPECT_EQ(run_kernel(*runtime_, slow, 1, {{first, 8 * kGpuBlock, true}},
                         [first] {
                           std::this_thread::sleep_for(std::chrono::milliseconds(2));
                           write_words(first, 8 * kGpuBlock, 1);
                         }),
              0);
    // Before its launch is over, and, in every other round, in a stream that has not used it.
    runtime_->deallocate_on(first, round % 2 == 0 ? slow : other);
    void* const second = runtime_->allocate(8 * kGpuBlock);
    EXPECT_EQ(second, first);
    write(other, second, 8 * kGpuBlock, 2);
    check(other, second, 8 * kGpuBlock, 2);
    runtime_->deallocate_on(second, other);
  }
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

// Work that no launch tells of, as an operator's on what it makes: it is told when it has been started.
TEST_F(FixedRuntimeTest, FreedWhileWorkWithoutALaunchUsesIt) {
  open(8, 1);
  void* const slow = stream();
  void* const other = stream();
  for (int round = 0; round < 20; ++round) {
    void* const first = runtime_->allocate_on(slow, 8 * kGpuBlock);
    const soft::Touch touch{first, 8 * kGpuBlock, true};
    EXPECT_EQ(soft::launch(slow, {&touch, 1},
                           [first] {
                             std::this_thread::sleep_for(std::chrono::milliseconds(2));
                             write_words(first, 8 * kGpuBlock, 1);
                           }),
              0);
    if (round % 2 == 0) {
      runtime_->use_on(slow, first);
    } else {
      runtime_->unpin_on(slow, {&first, 1});
    }
    runtime_->deallocate_on(first, other);
    void* const second = runtime_->allocate_on(other, 8 * kGpuBlock);
    EXPECT_EQ(second, first);
    write(other, second, 8 * kGpuBlock, 2);
    check(other, second, 8 * kGpuBlock, 2);
    runtime_->deallocate_on(second, other);
  }
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

TEST_F(FixedRuntimeTest, FreedInsideAnOpenLaunch) {
  open(8, 1);
  void* const on = stream();
  void* const other = stream();
  void* const data = runtime_->allocate(8 * kGpuBlock);
  const Access access{data, 8 * kGpuBlock, data};
  const std::uint64_t ticket = runtime_->announce_on(on, 1, {&access, 1});
  const soft::Touch touch{data, 8 * kGpuBlock, true};
  EXPECT_EQ(soft::launch(on, {&touch, 1}, [data] { write_words(data, 8 * kGpuBlock, 3); }), 0);
  runtime_->deallocate_on(data, other);
  void* const again = runtime_->allocate(8 * kGpuBlock);
  write(other, again, 8 * kGpuBlock, 4);
  runtime_->retire(ticket);
  runtime_->deallocate_on(again, other);
}

TEST_F(FixedRuntimeTest, SmallSizesAndManyOfThem) {
  open(8, 8);
  void* const on = stream();
  std::vector<std::pair<void*, std::size_t>> live;
  Rng rng(7);
  for (std::size_t i = 0; i < 3000; ++i) {
    if (live.size() > 60 || (!live.empty() && rng.chance(1, 3))) {
      const std::size_t k = rng.below(live.size());
      check(on, live[k].first, 64, live[k].second);
      runtime_->deallocate_on(live[k].first, on);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
    }
    void* const data = runtime_->allocate(rng.between(64, 12000));
    write(on, data, 64, i);
    live.emplace_back(data, i);
  }
  for (const auto& [data, seed] : live) {
    check(on, data, 64, seed);
    runtime_->deallocate_on(data, on);
  }
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
  EXPECT_EQ(runtime_->stats().live_bytes, 0u);
}

TEST_F(FixedRuntimeTest, ManyStreams) {
  open(8, 8);
  void* const data = runtime_->allocate(kGpuBlock);
  std::vector<void*> all;
  for (int i = 0; i < 25; ++i) all.push_back(stream());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) {
      EXPECT_EQ(soft::order(all[i - 1], all[i]), 0);
    }
    write(all[i], data, kGpuBlock, i);
  }
  check(all.back(), data, kGpuBlock, 24);
  runtime_->deallocate(data);
  runtime_->synchronize();
  EXPECT_EQ(wrong_, 0u);
}

TEST_F(FixedRuntimeTest, FailuresAreMessages) {
  const auto refusal = [&](std::uint32_t frames, std::uint32_t host) {
    try {
      open(frames, host);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  soft::fail_call(1, cuda::kOutOfMemory, "cuMemAlloc");
  EXPECT_NE(refusal(8, 8).find("--device-memory"), std::string::npos);
  EXPECT_EQ(soft::live().total(), 0u);
  for (const char* const function : {"cuMemHostAlloc", "cuMemHostGetDevicePointer"}) {
    soft::fail_call(1, cuda::kOutOfMemory, function);
    EXPECT_NE(refusal(8, 8).find("--memory"), std::string::npos);
    EXPECT_EQ(soft::live().total(), 0u);
  }
  soft::fail_call(1, cuda::kOutOfMemory, "cuEventCreate");
  EXPECT_NE(refusal(8, 8).find("events"), std::string::npos);
  EXPECT_EQ(soft::live().total(), 0u);
  open(8, 8);
  EXPECT_THROW(runtime_->allocate(100 * kGpuBlock), Error);
  std::byte host[64];
  EXPECT_THROW(runtime_->adopt(host), Error);
  void* const data = runtime_->allocate(kGpuBlock);
  expect_end(in_a_child(60, [&] {
    int failed = 0;
    try {
      runtime_->allocate(64);
    } catch (const Error&) {
      ++failed;
    }
    runtime_->deallocate(data);
    runtime_.reset();
    return failed == 1 ? 0 : 1;
  }));
  soft::lose(cuda::kUncorrectable);
  const Access access{data, kGpuBlock, data};
  runtime_->retire(runtime_->announce_on(nullptr, 1, {&access, 1}));
  EXPECT_THROW(runtime_->synchronize(), Error);
  EXPECT_FALSE(runtime_->failure().empty());
  EXPECT_THROW(runtime_->allocate(64), Error);
  runtime_.reset();  // what it had is left to the driver
  soft::reset();
}

TEST_F(FixedRuntimeTest, ArraysWorkThere) {
  open(8, 160);
  use_runtime(std::make_shared<WatchedRuntime>(runtime_));
  {
    const Array x = arange(0, 300000, 1, DType::kF32).evaluate();  // 1.2 MB, of 512 KiB
    const Array y = (x * 2.0 + 1.0).evaluate();
    EXPECT_EQ((y - x).to_vector<float>()[299999], 300000.0F);
    const Array m = x.slice(0, {0, 250000, 1}).reshape({500, 500});
    EXPECT_EQ((m.transpose() + m).to_vector<float>()[1], 501.0F);
    EXPECT_EQ(matmul(m, eye(500, 500)).to_vector<float>()[777], 777.0F);
  }
  use_runtime(nullptr);
}

// On the software driver; and on a GPU, where there is one, whether or not that has the virtual memory API.
enum class World { kSoft, kGpu };
class FixedDeviceTest : public testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    if (GetParam() == World::kSoft) soft::reset();
    config_.library = GetParam() == World::kSoft ? EBB_SOFT_CUDA : "libcuda.so.1";
    std::string reason;
    const Status status = CudaFixedDevice::make(config_, device_, reason);
    if (GetParam() == World::kGpu && status != Status::kOk) GTEST_SKIP() << "no GPU: " << reason;
    ASSERT_EQ(status, Status::kOk) << reason;
    ASSERT_EQ(cuda::Api::load(config_.library, api_, reason), Status::kOk) << reason;
    ASSERT_EQ(api_.context_retain(&context_, 0), cuda::kSuccess);
    ASSERT_EQ(api_.context_push(context_), cuda::kSuccess);
    ASSERT_EQ(api_.stream_create(&stream_, cuda::kStreamNonBlocking), cuda::kSuccess);
    void* data = nullptr;
    ASSERT_EQ(api_.host_allocate(&data, kBytes, 0), cuda::kSuccess);
    seen_ = {static_cast<std::byte*>(data), kBytes};
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    device_.reset();
    EXPECT_EQ(api_.host_free(seen_.data()), cuda::kSuccess);
    EXPECT_EQ(api_.stream_destroy(stream_), cuda::kSuccess);
    EXPECT_EQ(api_.context_pop(&context_), cuda::kSuccess);
    EXPECT_EQ(api_.context_release(0), cuda::kSuccess);
    if (GetParam() != World::kSoft) return;
    for (const std::string& violation : soft::take_violations()) ADD_FAILURE() << violation;
    EXPECT_EQ(soft::live().total(), 0u);
  }
  // Until all that the stream has been given is over.
  void finish() {
    DeviceStreams::Event event = nullptr;
    ASSERT_EQ(device_->make_event(event), Status::kOk);
    ASSERT_EQ(device_->record(event, stream_), Status::kOk);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Status status = Status::kBusy;
    while (status == Status::kBusy && std::chrono::steady_clock::now() < end) status = device_->query(event);
    EXPECT_EQ(status, Status::kOk) << device_->failure();
    device_->destroy_event(event);
  }

  static constexpr std::size_t kBytes = 4 * kMiB;
  CudaFixedDevice::Config config_{.memory_bytes = kBytes, .host_bytes = kBytes};
  std::unique_ptr<CudaFixedDevice> device_;
  cuda::Api api_;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  std::span<std::byte> seen_;
};

TEST_P(FixedDeviceTest, BothPiecesAreMemoryOfTheGpu) {
  unsigned char value = 17;
  for (const std::span<std::byte> piece : {device_->memory(), device_->host()}) {
    ASSERT_EQ(piece.size(), kBytes);
    const auto at = reinterpret_cast<cuda::Pointer>(piece.data());
    EXPECT_EQ(at % 512, 0u);
    EXPECT_EQ(api_.fill(at, ++value, kBytes, stream_), cuda::kSuccess);
    EXPECT_EQ(api_.copy_out(seen_.data(), at, kBytes, stream_), cuda::kSuccess);
    finish();
    EXPECT_TRUE(std::ranges::all_of(seen_, [&](std::byte byte) { return byte == std::byte{value}; }));
  }
  EXPECT_NE(device_->description().find("CUDA "), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, FixedDeviceTest, testing::Values(World::kSoft, World::kGpu), [](const auto& test) {
  return test.param == World::kSoft ? std::string("Soft") : std::string("Gpu");
});

}  // namespace
}  // namespace ebb
