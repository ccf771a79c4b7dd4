// The OpenCL device itself: how it is found, what it chooses, what becomes of errors of the driver beneath.
#include <algorithm>

#include "base/test/in_a_child.h"
#include "opencl_fixture.h"

namespace ebb::opencl_test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(OpenClLibrary, IsMissing) {
  const Error error = error_of([] { static_cast<void>(opencl_devices("libno-such-opencl.so")); });
  EXPECT_EQ(error.status(), Status::kUnsupported);
  EXPECT_TRUE(contains(error.what(), "libno-such-opencl.so")) << error.what();
  EXPECT_TRUE(contains(error.what(), "pocl-opencl-icd")) << error.what();
}

TEST(OpenClLibrary, IsSomethingElse) {
  const Error error = error_of([] { static_cast<void>(opencl_devices("libm.so.6")); });
  EXPECT_EQ(error.status(), Status::kUnsupported);
  EXPECT_TRUE(contains(error.what(), "clGetPlatformIDs")) << error.what();
}

TEST_F(OpenClTest, DevicesAreFoundByNumberAndName) {
  const std::vector<OpenClDeviceInfo> infos = opencl_devices(EBB_OPENCL_LAYER);
  ASSERT_FALSE(infos.empty());
  const OpenClDeviceInfo& first = infos.front();
  EXPECT_FALSE(first.name.empty());
  EXPECT_TRUE(contains(first.version, "OpenCL")) << first.version;
  EXPECT_GT(first.memory_bytes, 0u);
  EXPECT_GT(first.buffer_bytes_max, 0u);
  EXPECT_GT(first.compute_units, 0u);
  EXPECT_EQ(open({.device = "0"})->info().name, first.name);
  EXPECT_EQ(open({.device = first.name.substr(1, 5)})->info().name, first.name);
  EXPECT_EQ(open({.device = first.platform})->info().platform, first.platform);
  const Error error = error_of([&] { open({.device = "no such device"}); });
  EXPECT_EQ(error.status(), Status::kUnsupported);
  EXPECT_TRUE(contains(error.what(), first.name)) << error.what();
  EXPECT_TRUE(contains(open()->description(), first.name));
}

TEST_F(OpenClTest, TheWayIsChosenByCapability) {
  EXPECT_EQ(open({.device = "0"})->path(), OpenClPath::kHostPointer);
  layer_->system_svm = true;
  EXPECT_EQ(open({.device = "0"})->path(), OpenClPath::kSystemSvm);
  EXPECT_EQ(open({.device = "0", .path = OpenClPath::kStaged})->path(), OpenClPath::kStaged);
  layer_->system_svm = false;
  layer_->no_unified_memory = true;
  EXPECT_EQ(open({.device = "0"})->path(), OpenClPath::kStaged);
  const Error error = error_of([&] { open({.device = "0", .path = OpenClPath::kSystemSvm}); });
  EXPECT_EQ(error.status(), Status::kUnsupported);
}

TEST_F(OpenClTest, AGpuGetsOnlyAlignedMemoryWhereItIs) {
  layer_->as_gpu = true;
  layer_->alignment_bits = 4096 * 8;
  const auto device = open();
  ASSERT_EQ(device->path(), OpenClPath::kHostPointer);
  const auto kernel = device->compile(kSource, "fill");
  alignas(4096) static int out[4096];
  EXPECT_EQ(device->launch(*kernel, {100}, {overwrites(out, 100), 1}).shared_bytes, 400u);
  EXPECT_EQ(device->launch(*kernel, {100}, {overwrites(out + 4, 100), 1}).copied_out_bytes, 400u);
  EXPECT_EQ(out[4 + 99], 100);
}

TEST_F(OpenClTest, CompilersAreQuoted) {
  const auto device = open();
  const Error error = error_of([&] { device->compile("__kernel void f(__global int* x) { x = y_is_unknown; }", "f"); });
  EXPECT_EQ(error.status(), Status::kInvalid);
  EXPECT_TRUE(contains(error.what(), "y_is_unknown")) << error.what();
  EXPECT_TRUE(contains(error.what(), "CL_BUILD_PROGRAM_FAILURE")) << error.what();
  EXPECT_TRUE(contains(error_of([&] { device->compile(kSource, "no_such"); }).what(), "no_such"));
  EXPECT_EQ(error_of([&] { device->compile("", "f"); }).status(), Status::kInvalid);
}

TEST_F(OpenClTest, TheSameTextIsCompiledOnce) {
  const auto device = open();
  const auto kernel = device->compile(kSource, "fill");
  EXPECT_EQ(device->compile(kSource, "fill"), kernel);
  EXPECT_NE(device->compile(kSource, "fill", "-DUNUSED=1"), kernel);
  EXPECT_EQ(device->stats().compiled, 2u);
  EXPECT_EQ(device->stats().reused, 1u);
  EXPECT_EQ(kernel->function(), "fill");
}

TEST_F(OpenClTest, AKernelBelongsToItsDevice) {
  const auto one = open(), other = open();
  int out = 0;
  EXPECT_EQ(error_of([&] {
              other->launch(*one->compile(kSource, "fill"), {1}, {overwrites(&out, 1), 1});
            }).status(),
            Status::kInvalid);
  auto kernel = one->compile(kSource, "fill");
  one->launch(*kernel, {1}, {overwrites(&out, 1), 1});
  EXPECT_EQ(out, 1);
}

TEST_F(OpenClTest, AnArgumentLargerThanABufferIsToldToBeSplit) {
  layer_->buffer_bytes_max = 1000;
  const auto device = open();
  std::vector<int> out(251);
  const Error error = error_of([&] {
    device->launch(*device->compile(kSource, "fill"), {251}, {overwrites(out.data(), 251), 1});
  });
  EXPECT_EQ(error.status(), Status::kNoMemory);
  EXPECT_TRUE(contains(error.what(), "split")) << error.what();
}

// Whatever call of OpenCL's fails, at whatever moment: an error, nothing leaks, and the next launch is right.
TEST_F(OpenClTest, AnyCallMayFail) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    int failures = 0;
    for (int i = 0;; ++i) {
      layer_->reset();
      pretend(*layer_, way);
      layer_->failed = false;
      layer_->calls = 0;
      layer_->fail_at = i;
      std::vector<float> x(64, 2.0f), y(64, 1.0f);
      std::string what;
      try {
        const auto device = open();
        const auto kernel = device->compile(kSource, "axpy");
        device->launch(*kernel, {64}, {3.0f, reads(x.data(), 64), updates(y.data(), 64)});
      } catch (const Error& error) {
        what = error.what();
      }
      for (const auto& live : layer_->live) ASSERT_EQ(live.load(), 0) << "call " << i << ": " << what;
      // Questions about a device that stay without an answer make it less able, not broken.
      if (what.empty()) {
        ASSERT_EQ(y, std::vector<float>(64, 7.0f)) << "call " << i;
      }
      failures += what.empty() ? 0 : 1;
      ASSERT_EQ(x, std::vector<float>(64, 2.0f));
      if (!layer_->failed) break;
      ASSERT_LT(i, 1000);
    }
    EXPECT_GT(failures, 12);
  }
}

TEST_F(OpenClTest, ACommandThatFailsIsNamed) {
  const auto device = open();
  const auto kernel = device->compile(kSource, "fill");
  int out = 0;
  layer_->fail_events = true;
  const Error error = error_of([&] { device->launch(*kernel, {1}, {overwrites(&out, 1), 1}); });
  EXPECT_EQ(error.status(), Status::kNoMemory);
  EXPECT_TRUE(contains(error.what(), "clEnqueueNDRangeKernel")) << error.what();
  EXPECT_TRUE(contains(error.what(), "CL_OUT_OF_RESOURCES")) << error.what();
  layer_->fail_events = false;
  device->launch(*kernel, {1}, {overwrites(&out, 1), 1});
  EXPECT_EQ(out, 1);
}

TEST_F(OpenClTest, ALaunchThatDoesNotEndIsGivenUpWithItsDevice) {
  const auto device = open({.launch_timeout = std::chrono::milliseconds(50)});
  const auto kernel = device->compile(kSource, "fill");
  static int out = 0;  // the device may use it for ever
  layer_->never_ends = true;
  const Error error = error_of([&] { device->launch(*kernel, {1}, {overwrites(&out, 1), 1}); });
  EXPECT_EQ(error.status(), Status::kIoError);
  EXPECT_TRUE(contains(error.what(), "50 ms")) << error.what();
  layer_->never_ends = false;
  EXPECT_FALSE(device->usable());
  EXPECT_EQ(error_of([&] { device->launch(*kernel, {1}, {overwrites(&out, 1), 1}); }).status(), Status::kIoError);
  const auto next = open();
  next->launch(*next->compile(kSource, "fill"), {1}, {overwrites(&out, 1), 2});
  EXPECT_EQ(out, 2);
}

TEST_F(OpenClTest, AForkedChildIsToldToOpenItsOwn) {
  const auto device = open();
  const auto kernel = device->compile(kSource, "fill");
  expect_end(in_a_child(60, [&] {
    int out = 0;
    try {
      device->launch(*kernel, {1}, {overwrites(&out, 1), 1});
    } catch (const Error& error) {
      return error.status() == Status::kUnsupported && !device->usable() ? 0 : 1;
    }
    return 2;
  }));
}

TEST_F(OpenClTest, NonsenseOptionsAreRefused) {
  EXPECT_EQ(error_of([&] { open({.launch_timeout = std::chrono::milliseconds(0)}); }).status(), Status::kInvalid);
}

}  // namespace
}  // namespace ebb::opencl_test
