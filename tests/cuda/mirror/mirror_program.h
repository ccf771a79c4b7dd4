// CudaMirrorBase: what the tests of CudaMirror share: opening one on the software driver or on a GPU, and a kernel
// whose touches the software driver is told, which checks what a GPU would not forgive: memory that is not there.
//
// Owned by a test; scale() from any thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "ebb/cuda/mirror.h"
#include "gpu_program.h"

namespace ebb {

// One whose kernels reach memory of the host.
inline soft::Machine reaching_machine() {
  soft::Machine machine;
  machine.pageable_access = true;
  return machine;
}

inline CudaMirrorOptions soft_options() {
  CudaMirrorOptions options;
  options.cuda_library = EBB_SOFT_CUDA;
  options.nvrtc_library = EBB_SOFT_NVRTC;
  return options;
}

class CudaMirrorBase : public testing::Test {
 protected:
  // Skips the test where no GPU can do it.
  void open(bool on_gpu) {
    if (!on_gpu) return open_soft();
    options_.launch_timeout = std::chrono::seconds(60);
    if (const char* const nvrtc = std::getenv("EBB_NVRTC_LIBRARY")) options_.nvrtc_library = nvrtc;
    try {
      mirror_ = CudaMirror::open(options_);
    } catch (const Error& error) {
      GTEST_SKIP() << "no GPU for this: " << error.what();
    }
  }
  void open_soft(const soft::Machine& machine = reaching_machine()) {
    soft::reset(machine);
    is_soft_ = true;
    options_ = soft_options();
    mirror_ = CudaMirror::open(options_);
  }
  void close() {
    mirror_.reset();
    if (!is_soft_) return;
    expect_clean();
    soft::reset();
  }
  // y = by * x on the GPU. The software driver hears what is touched, as it cannot tell from parameters.
  void scale(const float* x, float* y, float by, std::int64_t count, Runtime* runtime = nullptr,
             CudaMirror* other = nullptr) {
    CudaMirror& mirror = other != nullptr ? *other : *mirror_;
    const auto kernel = mirror.compile(kScale, "scale");
    const auto elements = static_cast<std::size_t>(count);
    const Use uses[] = {reads(x, elements, runtime != nullptr ? x : nullptr),
                        overwrites(y, elements, runtime != nullptr ? y : nullptr)};
    const soft::Touch touches[] = {{x, elements * sizeof(float), false}, {y, elements * sizeof(float), true}};
    const std::lock_guard one_expects(mutex_);
    if (is_soft_) soft::expect(mirror.handle(), touches);
    const void* const parameters[] = {&x, &y, &by, &count};
    mirror.launch(*kernel, {static_cast<std::uint32_t>((count + 255) / 256), 256}, parameters, uses, runtime);
  }
  static void expect_scaled(const float* x, const float* y, float by, std::size_t count) {
    for (std::size_t i = 0; i < count; i += 1 + count / 1000) ASSERT_EQ(y[i], by * x[i]) << i;
  }

  bool is_soft_ = false;
  CudaMirrorOptions options_;
  std::shared_ptr<CudaMirror> mirror_;

 private:
  std::mutex mutex_;
};

}  // namespace ebb
