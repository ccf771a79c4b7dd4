// What every implementation of GpuDevice has to do: CUDA's on the software driver, and on a GPU where there is one.
// What a GPU can show only with kernels of its own is in gpu_runtime_test.cc, on the software driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "base/rng.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/cuda_probe.h"
#include "gpu_program.h"

namespace ebb {
namespace {

constexpr std::uint32_t kFrames = 4;
constexpr std::uint32_t kBlocks = 8;

class DeviceTest : public testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    if (GetParam() == World::kSoft) soft::reset();
    config_.library = GetParam() == World::kSoft ? EBB_SOFT_CUDA : "libcuda.so.1";
    config_.block_bytes = GetParam() == World::kSoft ? 64 * kKiB : 2 * kMiB;
    config_.blocks = kBlocks;
    config_.frames = kFrames;
    config_.host_bytes = 4 * config_.block_bytes;
    config_.noted = 4;
    const char* const nvrtc = std::getenv("EBB_NVRTC_LIBRARY");
    config_.nvrtc_library = GetParam() == World::kSoft ? EBB_SOFT_NVRTC : nvrtc != nullptr ? nvrtc : "";
    std::string reason;
    const Status status = CudaDevice::make(config_, device_, reason);
    if (GetParam() == World::kGpu && status != Status::kOk) GTEST_SKIP() << "no GPU: " << reason;
    ASSERT_EQ(status, Status::kOk) << reason;
  }
  void TearDown() override {
    for (const GpuDevice::Event event : events_) device_->destroy_event(event);
    device_.reset();
    if (GetParam() != World::kSoft) return;
    expect_clean();
  }

  std::span<std::byte> host(std::size_t block) {
    return device_->host().subspan(block * config_.block_bytes, config_.block_bytes);
  }
  GpuDevice::Event event() {
    GpuDevice::Event made = nullptr;
    EXPECT_EQ(device_->make_event(made), Status::kOk);
    events_.push_back(made);
    return made;
  }
  GpuDevice::Event timer() {
    GpuDevice::Event made = nullptr;
    EXPECT_EQ(device_->make_timer(made), Status::kOk);
    events_.push_back(made);
    return made;
  }
  // Until the event is done; a device that never gets there is a failure.
  void wait_here(GpuDevice::Event event) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Status status = device_->query(event);
    while (status == Status::kBusy && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      status = device_->query(event);
    }
    ASSERT_EQ(status, Status::kOk) << device_->failure();
  }
  // Waits for all copies of a direction.
  void finish(GpuDevice::Copy direction) {
    const GpuDevice::Event end = event();
    ASSERT_EQ(device_->record(end, device_->copy_stream(direction)), Status::kOk);
    wait_here(end);
  }
  void order(GpuDevice::Copy before, GpuDevice::Copy after) {
    const GpuDevice::Event between = event();
    ASSERT_EQ(device_->record(between, device_->copy_stream(before)), Status::kOk);
    ASSERT_EQ(device_->wait(device_->copy_stream(after), between), Status::kOk);
  }

  CudaDevice::Config config_;
  std::unique_ptr<CudaDevice> device_;
  std::vector<GpuDevice::Event> events_;
};

TEST_P(DeviceTest, FramesKeepTheirBytes) {
  for (std::uint32_t i = 0; i < kFrames; ++i) ASSERT_EQ(device_->create(FrameIndex(i)), Status::kOk);
  for (std::size_t i = 0; i < 2; ++i) {
    std::memset(host(i).data(), static_cast<int>(i + 1), config_.block_bytes);
    ASSERT_EQ(device_->copy_in(FrameIndex(static_cast<std::uint32_t>(i)), host(i)), Status::kOk);
  }
  order(GpuDevice::Copy::kIn, GpuDevice::Copy::kOut);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(device_->copy_out(host(i + 2), FrameIndex(static_cast<std::uint32_t>(i))), Status::kOk);
  }
  finish(GpuDevice::Copy::kOut);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(std::ranges::equal(host(i), host(i + 2)));
  for (std::uint32_t i = 0; i < kFrames; ++i) device_->destroy(FrameIndex(i));
}

TEST_P(DeviceTest, FramesMoveUnderAddresses) {
  ASSERT_EQ(device_->create(FrameIndex(0)), Status::kOk);
  ASSERT_EQ(device_->create(FrameIndex(1)), Status::kOk);
  // Several at once, one of them twice; then they change places.
  ASSERT_EQ(device_->map(FrameIndex(0), BlockIndex(2)), Status::kOk);
  ASSERT_EQ(device_->map(FrameIndex(1), BlockIndex(3)), Status::kOk);
  ASSERT_EQ(device_->map(FrameIndex(0), BlockIndex(4)), Status::kOk);
  ASSERT_EQ(device_->permit({BlockIndex(2), 3}), Status::kOk);
  ASSERT_EQ(device_->unmap({BlockIndex(2), 2}), Status::kOk);
  ASSERT_EQ(device_->map(FrameIndex(1), BlockIndex(2)), Status::kOk);
  ASSERT_EQ(device_->permit({BlockIndex(2), 1}), Status::kOk);
  ASSERT_EQ(device_->unmap({BlockIndex(2), 1}), Status::kOk);
  ASSERT_EQ(device_->unmap({BlockIndex(4), 1}), Status::kOk);
  EXPECT_TRUE(device_->failure().empty());
}

TEST_P(DeviceTest, WhatIsMappedIsTheFrame) {
  cuda::Api api;
  std::string reason;
  ASSERT_EQ(cuda::Api::load(config_.library, api, reason), Status::kOk);
  cuda::Context context = nullptr;
  ASSERT_EQ(api.context_retain(&context, 0), cuda::kSuccess);
  ASSERT_EQ(api.context_push(context), cuda::kSuccess);
  ASSERT_EQ(device_->create(FrameIndex(0)), Status::kOk);
  ASSERT_EQ(device_->map(FrameIndex(0), BlockIndex(5)), Status::kOk);
  ASSERT_EQ(device_->permit({BlockIndex(5), 1}), Status::kOk);
  // Work at the block's address, in the stream of copies out, before the copy out of the frame.
  auto* const out = static_cast<cuda::Stream>(device_->copy_stream(GpuDevice::Copy::kOut));
  const auto address = reinterpret_cast<cuda::Pointer>(device_->base() + 5 * config_.block_bytes);
  EXPECT_EQ(api.fill(address, 0x5a, config_.block_bytes, out), cuda::kSuccess);
  ASSERT_EQ(device_->copy_out(host(0), FrameIndex(0)), Status::kOk);
  finish(GpuDevice::Copy::kOut);
  EXPECT_TRUE(std::ranges::all_of(host(0), [](std::byte value) { return value == std::byte{0x5a}; }));
  ASSERT_EQ(device_->unmap({BlockIndex(5), 1}), Status::kOk);
  EXPECT_EQ(api.context_pop(&context), cuda::kSuccess);
  EXPECT_EQ(api.context_release(0), cuda::kSuccess);
}

TEST_P(DeviceTest, EventsAreOrderedAndReused) {
  ASSERT_EQ(device_->create(FrameIndex(0)), Status::kOk);
  const GpuDevice::Event event_in = event();
  const GpuDevice::Event event_out = event();
  EXPECT_EQ(device_->query(event_in), Status::kOk);  // never recorded: nothing to wait for
  for (int round = 0; round < 20; ++round) {
    std::memset(host(0).data(), round, config_.block_bytes);
    ASSERT_EQ(device_->copy_in(FrameIndex(0), host(0)), Status::kOk);
    ASSERT_EQ(device_->record(event_in, device_->copy_stream(GpuDevice::Copy::kIn)), Status::kOk);
    ASSERT_EQ(device_->wait(device_->copy_stream(GpuDevice::Copy::kOut), event_in), Status::kOk);
    ASSERT_EQ(device_->copy_out(host(1), FrameIndex(0)), Status::kOk);
    ASSERT_EQ(device_->record(event_out, device_->copy_stream(GpuDevice::Copy::kOut)), Status::kOk);
    wait_here(event_out);
    EXPECT_EQ(host(1)[config_.block_bytes - 1], std::byte(round));
    EXPECT_EQ(device_->query(event_in), Status::kOk);
  }
}

// A place that no longer holds what was noted of it shows which parts have been copied.
TEST_P(DeviceTest, CopiesOutOnlyWhatHasChanged) {
  if (!device_->tells_changes()) GTEST_SKIP() << "no NVRTC here: " << device_->description();
  const FrameIndex frame(0);
  ASSERT_EQ(device_->create(frame), Status::kOk);
  Rng rng(7);
  for (std::byte& value : host(0)) value = std::byte(rng.below(256));
  std::memcpy(host(1).data(), host(0).data(), config_.block_bytes);
  ASSERT_EQ(device_->copy_in(frame, host(0)), Status::kOk);
  finish(GpuDevice::Copy::kIn);
  ASSERT_EQ(device_->copy_out(host(2), frame), Status::kOk);
  ASSERT_EQ(device_->note(frame, 2), Status::kOk);
  finish(GpuDevice::Copy::kOut);
  finish(GpuDevice::Copy::kNote);
  ASSERT_TRUE(std::ranges::equal(host(2), host(0)));
  const auto untouched = [&] { return std::ranges::count(host(2), std::byte{0xee}); };
  std::memset(host(2).data(), 0xee, config_.block_bytes);
  ASSERT_EQ(device_->copy_out_changed(frame, 2), Status::kOk);
  finish(GpuDevice::Copy::kOut);
  EXPECT_EQ(static_cast<std::size_t>(untouched()), config_.block_bytes);
  // Signs of two neighbouring floats, and a bit at the end: each of them is a change of its own.
  for (const std::size_t at : {std::size_t{3}, std::size_t{7}, config_.block_bytes - 1}) host(1)[at] ^= std::byte{0x80};
  ASSERT_EQ(device_->copy_in(frame, host(1)), Status::kOk);
  finish(GpuDevice::Copy::kIn);
  ASSERT_EQ(device_->copy_out_changed(frame, 2), Status::kOk);
  finish(GpuDevice::Copy::kOut);
  EXPECT_EQ(host(2)[3], host(1)[3]);
  EXPECT_EQ(host(2)[7], host(1)[7]);
  EXPECT_EQ(host(2)[config_.block_bytes - 1], host(1)[config_.block_bytes - 1]);
  EXPECT_LT(static_cast<std::size_t>(untouched()), config_.block_bytes - 4096);
  EXPECT_LE(config_.block_bytes - static_cast<std::size_t>(untouched()), 2 * 4096u);
  // And what has been copied is known.
  std::memset(host(2).data(), 0xee, config_.block_bytes);
  ASSERT_EQ(device_->copy_out_changed(frame, 2), Status::kOk);
  finish(GpuDevice::Copy::kOut);
  EXPECT_EQ(static_cast<std::size_t>(untouched()), config_.block_bytes);
}

// Of work that takes a while: on a GPU as long as so many copies do, on the software driver until it is let go.
TEST_P(DeviceTest, TimersTellHowLongWorkTook) {
  constexpr int kCopies = 256;
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kHeld{3};
  ASSERT_EQ(device_->create(FrameIndex(0)), Status::kOk);
  const GpuDevice::Stream in = device_->copy_stream(GpuDevice::Copy::kIn);
  const GpuDevice::Event from = timer();
  const GpuDevice::Event to = timer();
  std::atomic<bool> held{false};
  for (int round = 0; round < 3; ++round) {  // they can be used again
    held = true;
    const auto start = Clock::now();
    EXPECT_EQ(device_->record(from, in), Status::kOk);
    if (GetParam() == World::kSoft) {
      wait_here(from);
      EXPECT_EQ(soft::launch(in, {}, [&held] { held.wait(true); }), 0);
    }
    for (int i = 0; i < kCopies; ++i) EXPECT_EQ(device_->copy_in(FrameIndex(0), host(0)), Status::kOk);
    EXPECT_EQ(device_->record(to, in), Status::kOk);
    std::uint64_t ns = 0;
    EXPECT_EQ(device_->elapsed(from, to, ns), Status::kBusy);
    EXPECT_EQ(device_->query(to), Status::kBusy);
    if (GetParam() == World::kSoft) std::this_thread::sleep_for(kHeld);
    held = false;
    held.notify_all();
    wait_here(to);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    ASSERT_EQ(device_->elapsed(from, to, ns), Status::kOk);
    // No link carries a terabyte a second; and two clocks differ a little.
    const std::uint64_t least =
        GetParam() == World::kSoft ? std::chrono::nanoseconds(kHeld).count() : kCopies * config_.block_bytes / 1000;
    EXPECT_GE(ns, least * 99 / 100);
    EXPECT_LE(ns, static_cast<std::uint64_t>(took.count()) * 101 / 100);
  }
}

TEST_P(DeviceTest, TimersAreEventsToo) {
  ASSERT_EQ(device_->create(FrameIndex(0)), Status::kOk);
  const GpuDevice::Event first = timer();
  const GpuDevice::Event second = timer();
  ASSERT_EQ(device_->copy_in(FrameIndex(0), host(0)), Status::kOk);
  ASSERT_EQ(device_->record(first, device_->copy_stream(GpuDevice::Copy::kIn)), Status::kOk);
  ASSERT_EQ(device_->wait(device_->copy_stream(GpuDevice::Copy::kOut), first), Status::kOk);
  ASSERT_EQ(device_->copy_out(host(1), FrameIndex(0)), Status::kOk);
  ASSERT_EQ(device_->record(second, device_->copy_stream(GpuDevice::Copy::kOut)), Status::kOk);
  wait_here(second);
  std::uint64_t ns = 0;  // of two streams, too
  EXPECT_EQ(device_->elapsed(first, second, ns), Status::kOk);
  EXPECT_GT(ns, 0u);
}

TEST_P(DeviceTest, SaysWhatItIs) {
  EXPECT_NE(device_->description().find("CUDA "), std::string::npos) << device_->description();
  EXPECT_EQ(device_->bytes(), kBlocks * config_.block_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device_->base()) % config_.block_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, testing::Values(World::kSoft, World::kGpu), name_of);

// What is said where CUDA cannot be had.
class CudaOpenTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.library = EBB_SOFT_CUDA;
    config_.block_bytes = 64 * kKiB;
    config_.blocks = kBlocks;
    config_.frames = kFrames;
    config_.host_bytes = 64 * kKiB;
  }
  void TearDown() override { soft::reset(); }
  std::string refusal(Status expected) {
    std::unique_ptr<CudaDevice> device;
    std::string reason;
    EXPECT_EQ(CudaDevice::make(config_, device, reason), expected) << reason;
    EXPECT_EQ(soft::live().total(), 0u);
    return reason;
  }
  CudaDevice::Config config_;
};

TEST_F(CudaOpenTest, NoDriver) {
  config_.library = "libcuda_of_nobody.so.1";
  EXPECT_PRED2(contains, refusal(Status::kUnsupported), "there is no CUDA driver here");
}

TEST_F(CudaOpenTest, WrongDriver) {
  config_.library = "libc.so.6";
  EXPECT_PRED2(contains, refusal(Status::kUnsupported), "lacks cuInit");
}

TEST_F(CudaOpenTest, NoDevice) {
  soft::Machine machine;
  machine.devices = 0;
  soft::reset(machine);
  EXPECT_PRED2(contains, refusal(Status::kUnsupported), "CUDA_VISIBLE_DEVICES");
}

TEST_F(CudaOpenTest, WrongOrdinal) {
  soft::reset();
  config_.ordinal = 3;
  EXPECT_PRED2(contains, refusal(Status::kInvalid), "this process sees 1");
}

TEST_F(CudaOpenTest, DriverMismatch) {
  soft::reset();
  soft::fail_call(1, cuda::kDriverMismatch, "cuInit");
  EXPECT_PRED2(contains, refusal(Status::kUnsupported), "restart the machine");
}

TEST_F(CudaOpenTest, NoVirtualMemory) {
  soft::Machine machine;
  machine.virtual_memory = false;
  soft::reset(machine);
  EXPECT_PRED2(contains, refusal(Status::kUnsupported), "virtual memory API");
}

TEST_F(CudaOpenTest, TooLittleMemory) {
  soft::Machine machine;
  machine.memory_bytes = 128 * kKiB;
  soft::reset(machine);
  EXPECT_PRED2(contains, refusal(Status::kNoMemory), "--device-memory");
}

TEST_F(CudaOpenTest, WrongGranularity) {
  soft::Machine machine;
  machine.granularity = 2 * kMiB;
  soft::reset(machine);
  EXPECT_PRED2(contains, refusal(Status::kInvalid), "EBB_BLOCK");
}

TEST_F(CudaOpenTest, NoPinnedMemory) {
  soft::Machine machine;
  machine.pinned_bytes = 4096;
  soft::reset(machine);
  EXPECT_PRED2(contains, refusal(Status::kNoMemory), "--memory");
}

// What `ebb doctor` tells.
TEST(CudaProbe, TellsWhatThereIs) {
  soft::Machine machine;
  machine.devices = 2;
  machine.virtual_memory = false;
  machine.pageable_access = true;
  soft::reset(machine);
  cuda::CudaFacts facts;
  std::string reason;
  ASSERT_EQ(cuda::probe(EBB_SOFT_CUDA, facts, reason), Status::kOk) << reason;
  ASSERT_EQ(facts.gpus.size(), 2u);
  EXPECT_EQ(facts.version, 13000);
  EXPECT_EQ(facts.gpus[1].name, "software device");
  EXPECT_EQ(facts.gpus[1].memory_bytes, machine.memory_bytes);
  EXPECT_EQ(facts.gpus[1].capability, 90);
  EXPECT_FALSE(facts.gpus[1].virtual_memory);
  EXPECT_TRUE(facts.gpus[1].pageable_access);
  EXPECT_FALSE(facts.gpus[1].host_page_tables);
  soft::reset();
  soft::fail_call(1, cuda::kUncorrectable, "cuDeviceTotalMem");
  EXPECT_EQ(cuda::probe(EBB_SOFT_CUDA, facts, reason), Status::kIoError);
  EXPECT_NE(reason.find("CUDA_ERROR_ECC_UNCORRECTABLE"), std::string::npos) << reason;
  EXPECT_EQ(cuda::probe("libcuda_of_nobody.so.1", facts, reason), Status::kUnsupported);
}

TEST(CudaProbe, PinsAndLetsGo) {
  soft::reset();
  std::string reason;
  EXPECT_EQ(cuda::probe_pinning(EBB_SOFT_CUDA, kMiB, reason), Status::kOk) << reason;
  EXPECT_EQ(cuda::probe_pinning(EBB_SOFT_CUDA, 2 * kGiB, reason), Status::kIoError);
  EXPECT_NE(reason.find("2.00 GiB of host memory cannot be pinned"), std::string::npos) << reason;
  EXPECT_EQ(soft::live().total(), 0u);
}

}  // namespace
}  // namespace ebb
