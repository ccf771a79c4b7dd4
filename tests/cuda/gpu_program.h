// GpuProgram: what the tests on the software driver share: opening a DeviceRuntime there, kernels between announce and
// retire, what errors say, and the end, at which nothing may be left or have been done wrong.
//
// Owned by a test; its thread only, unless said otherwise.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ebb/device.h"
#include "soft/soft_driver.h"

namespace ebb {

inline constexpr std::size_t kGpuBlock = 64 * kKiB;

// Where a test runs: the second is skipped where there is no GPU.
enum class World { kSoft, kGpu };
inline std::string name_of(const testing::TestParamInfo<World>& test) {
  return test.param == World::kSoft ? "Soft" : "Gpu";
}

inline constexpr const char* kScale = R"(
extern "C" __global__ void scale(const float* x, float* y, float by, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = by * x[i];
})";

// `frames` blocks of GPU memory and `host` of host memory, besides what is for staging.
inline Options gpu_options(std::uint32_t frames, std::uint32_t host, const std::string& flash_size = "64MiB") {
  Options options;
  options.block_bytes = kGpuBlock;
  options.device_memory = frames * kGpuBlock;
  const std::uint32_t staging = frames / 4 < 2 ? 2 : frames / 4 > 32 ? 32 : frames / 4;
  options.memory = (host + staging) * kGpuBlock;
  parse_flash("/tmp:" + flash_size, options);
  options.policy = "window";
  options.cuda_library = EBB_SOFT_CUDA;
  options.nvrtc_library = EBB_SOFT_NVRTC;
  options.cublas_library = EBB_SOFT_CUBLAS;
  options.flash_driver = "threads";  // whose order ThreadSanitizer sees
  return options;
}

// One thing that a kernel touches.
struct KernelUse {
  void* data = nullptr;
  std::size_t bytes = 0;
  bool write = false;
  void* allocation = nullptr;
};

// Announces, starts, retires. Returns the driver's answer to the start.
inline int run_kernel(DeviceRuntime& runtime, void* stream, std::uint64_t op, const std::vector<KernelUse>& uses,
                      std::function<void()> body) {
  std::vector<Access> accesses;
  std::vector<soft::Touch> touches;
  for (const KernelUse& use : uses) {
    Access access;
    access.data = use.data;
    access.bytes = use.bytes;
    access.allocation = use.allocation != nullptr ? use.allocation : use.data;
    access.written = use.write;
    accesses.push_back(access);
    touches.push_back({use.data, use.bytes, use.write});
  }
  const std::uint64_t ticket = runtime.announce_on(stream, op, accesses);
  const int result = soft::launch(stream, touches, std::move(body));
  runtime.retire(ticket);
  return result;
}

// Words that depend on their place and on a seed; kernels that write and compare them. No ownership: they may run last.
inline std::uint64_t word(std::uint64_t seed, std::size_t i) {
  return (seed + i) * 0x9e3779b97f4a7c15ull ^ (seed >> 7);
}

inline void write_words(void* data, std::size_t bytes, std::uint64_t seed) {
  auto* const words = static_cast<std::uint64_t*>(data);
  for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = word(seed, i);
}

inline void check_words(const void* data, std::size_t bytes, std::uint64_t seed, std::size_t first,
                        std::atomic<std::uint64_t>* wrong) {
  const auto* const words = static_cast<const std::uint64_t*>(data);
  for (std::size_t i = 0; i < bytes / 8; ++i) {
    if (words[i] != word(seed, first + i)) wrong->fetch_add(1);
  }
}

// What an error says; empty: there was none.
template <typename Do>
std::string said(Status status, Do&& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Nothing is left on the software driver, and nothing was done wrong.
inline void expect_clean() {
  for (const std::string& violation : soft::take_violations()) ADD_FAILURE() << violation;
  EXPECT_EQ(soft::live().total(), 0u);
}

}  // namespace ebb
