// CudaMirror where something is missing or fails: what is said, and that nothing is left or hangs.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/test/in_a_child.h"
#include "drivers/cuda/cuda_api.h"
#include "mirror_program.h"

namespace ebb {
namespace {

class CudaMirrorFailures : public CudaMirrorBase {
 protected:
  void TearDown() override {
    is_soft_ = true;
    close();
  }
  static std::string refusal(Status status, const CudaMirrorOptions& options = soft_options()) {
    return said(status, [&] { CudaMirror::open(options); });
  }
};

TEST_F(CudaMirrorFailures, AGpuThatDoesNotReachMemoryIsRefusedWithTheRemedy) {
  soft::reset();
  const std::string why = refusal(Status::kUnsupported);
  for (const char* const part : {"'software device'", "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS is 0", "535 or later",
                                 "6.1.24", "ebb::Mirror", "ebb::DeviceRuntime"}) {
    EXPECT_TRUE(contains(why, part)) << why;
  }
}

TEST_F(CudaMirrorFailures, WhatIsMissingIsTold) {
  soft::reset(reaching_machine());
  CudaMirrorOptions options = soft_options();
  options.cuda_library = "libcuda_of_nobody.so.1";
  EXPECT_TRUE(contains(refusal(Status::kUnsupported, options), "install the NVIDIA driver"));
  options = soft_options();
  options.nvrtc_library = "libnvrtc_of_nobody.so";
  EXPECT_TRUE(contains(refusal(Status::kUnsupported, options), "EBB_NVRTC_LIBRARY"));
  options = soft_options();
  options.device = 3;
  EXPECT_TRUE(contains(refusal(Status::kInvalid, options), "there is no GPU 3"));
  options = soft_options();
  options.launch_timeout = {};
  EXPECT_TRUE(contains(refusal(Status::kInvalid, options), "launch_timeout"));
  soft::Machine machine = reaching_machine();
  machine.devices = 0;
  soft::reset(machine);
  EXPECT_TRUE(contains(refusal(Status::kUnsupported), "CUDA_ERROR_NO_DEVICE"));
}

// The software driver itself: what the other tests stand on.
TEST_F(CudaMirrorFailures, TheSoftwareDriverFindsTouchesOfTheHost) {
  soft::reset();
  void* stream = nullptr;
  ASSERT_EQ(soft::new_stream(&stream), 0);
  std::vector<float> x(100);
  const soft::Touch touch{x.data(), 400, true};
  EXPECT_EQ(soft::launch(stream, {&touch, 1}, [] {}), 0);
  EXPECT_EQ(soft::wait_for(stream), cuda::kIllegalAddress);
  const std::vector<std::string> violations = soft::take_violations();
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_TRUE(contains(violations[0], "memory of the host")) << violations[0];
  EXPECT_EQ(soft::delete_stream(stream), 0);
}

TEST_F(CudaMirrorFailures, ADriverThatDoesNotMovePagesSaysSo) {
  soft::Machine machine = reaching_machine();
  machine.prefetch = false;
  open_soft(machine);
  alignas(4096) static float x[1024];
  float y[1024];
  EXPECT_FALSE(mirror_->migrate_to_device(x, sizeof x));
  EXPECT_FALSE(mirror_->migrate_to_host(x, sizeof x));
  x[1000] = 4;
  scale(x, y, 2, 1024);
  mirror_->synchronize();
  EXPECT_EQ(y[1000], 8);
}

// By whichever function the driver has.
TEST_F(CudaMirrorFailures, PagesMoveByTheNewestFunction) {
  open_soft();
  cuda::Api api;
  std::string reason;
  ASSERT_EQ(cuda::Api::load(EBB_SOFT_CUDA, api, reason), Status::kOk) << reason;
  cuda::Context context = nullptr;
  ASSERT_EQ(api.context_retain(&context, 0), cuda::kSuccess);
  ASSERT_EQ(api.context_push(context), cuda::kSuccess);
  const auto stream = static_cast<cuda::Stream>(mirror_->handle());
  const auto move = [&](cuda::Device to) { return api.move_pages(4096, 8192, to, stream); };
  EXPECT_EQ(move(0), cuda::kSuccess);
  api.prefetch = nullptr;
  EXPECT_EQ(move(cuda::kHost), cuda::kSuccess);
  api.prefetch_before_12_2 = nullptr;
  EXPECT_EQ(move(0), cuda::kNotSupported);
  const std::vector<soft::Prefetch> asked = soft::take_prefetches();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].device == 0 && asked[1].device == -1 && asked[1].bytes == 8192);
  ASSERT_EQ(api.context_pop(&context), cuda::kSuccess);
  ASSERT_EQ(api.context_release(0), cuda::kSuccess);
}

TEST_F(CudaMirrorFailures, KernelsOfOthersAreRefused) {
  open_soft();
  const std::shared_ptr<CudaMirror> other = CudaMirror::open(soft_options());
  const auto kernel = other->compile(kScale, "scale");
  EXPECT_EQ(kernel, other->compile(kScale, "scale"));
  const std::string why = said(Status::kInvalid, [&] { mirror_->launch(*kernel, {}, {}, {}); });
  EXPECT_TRUE(contains(why, "compiled by somebody else")) << why;
  EXPECT_TRUE(contains(said(Status::kInvalid, [&] { mirror_->compile("nonsense", "f"); }), "does not compile"));
}

TEST_F(CudaMirrorFailures, AKernelThatHangsIsGivenUp) {
  soft::reset(reaching_machine());
  options_ = soft_options();
  options_.launch_timeout = std::chrono::milliseconds(50);
  mirror_ = CudaMirror::open(options_);
  std::atomic<bool> go{false};
  auto* const may_end = &go;
  ASSERT_EQ(soft::launch(mirror_->handle(), {}, [may_end] { may_end->wait(false); }), 0);
  EXPECT_TRUE(contains(said(Status::kIoError, [&] { mirror_->synchronize(); }), "a kernel hangs"));
  EXPECT_TRUE(contains(said(Status::kIoError, [&] { mirror_->synchronize(); }), "is given up"));
  mirror_.reset();  // leaves all to the driver
  EXPECT_EQ(soft::live().contexts, 1u);
  go = true;
  go.notify_all();
  soft::take_violations();
  soft::reset();
}

TEST_F(CudaMirrorFailures, ForkedChildIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator may be locked for ever in the child of a process with threads";
#endif
  open_soft();
  expect_end(in_a_child(60, [&] {
    try {
      mirror_->synchronize();
    } catch (const Error& error) {
      mirror_.reset();
      return error.status() == Status::kUnsupported ? 0 : 2;
    }
    return 1;
  }));
}

// Every call to the driver fails once, in turn: it is told, and the next mirror works.
TEST_F(CudaMirrorFailures, AnyCallMayFail) {
  std::uint64_t refused = 0;
  std::uint64_t nth = 1;
  for (bool reached = true; reached; ++nth) {
    soft::reset(reaching_machine());
    is_soft_ = true;
    std::vector<float> x(300, 2.0F);
    std::vector<float> y(300);
    bool is_whole = false;
    soft::fail_call(nth, nth % 2 == 0 ? cuda::kOutOfMemory : cuda::kInvalidValue);
    try {
      mirror_ = CudaMirror::open(soft_options());
      for (float round : {1.0F, 2.0F}) {
        scale(x.data(), y.data(), round, 300);
        mirror_->synchronize();
      }
      is_whole = true;
    } catch (const Error& error) {
      ++refused;
      EXPECT_FALSE(std::string(error.what()).empty());
    }
    mirror_.reset();
    reached = soft::calls() >= nth;
    soft::fail_call(0, 0);
    if (is_whole) {
      ASSERT_EQ(y, std::vector<float>(300, 4.0F)) << "call " << nth;
    }
    for (const std::string& violation : soft::take_violations()) ADD_FAILURE() << "call " << nth << ": " << violation;
  }
  EXPECT_GT(refused, 10u);
  EXPECT_GT(nth, 15u);
  soft::reset();
}

}  // namespace
}  // namespace ebb
