// CudaMirror: kernels in CUDA C on the process's own memory, on a GPU that reaches it: by HMM, as the open kernel
// modules of NVIDIA's driver have it, or by the host's page tables (Grace Hopper). Any valid pointer - from malloc,
// mmap, the stack or a file mapping - is one for a kernel; nobody copies.
//
//   auto mirror = ebb::CudaMirror::open();
//   auto kernel = mirror->compile(R"(extern "C" __global__ void scale(float* x, float by, long long count) { … })",
//                                 "scale");
//   const ebb::Use uses[] = {ebb::updates(x, count)};
//   const void* const parameters[] = {&x, &by, &count};
//   mirror->launch(*kernel, {blocks, 256}, parameters, uses);   // checked, and started
//   mirror->synchronize();                                      // from here on the memory may be unmapped
//
// What a launch declares is checked before it starts. What it touches without having declared it is not: a bad address
// ends CUDA in this process, unlike with ebb::Mirror (docs/mirror.md). **No GPU has run this yet.**
//
// Threads: any. A kernel starts when all that were launched before it are over. A forked child opens one of its own,
// after exec.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ebb/cuda/stream.h"
#include "ebb/runtime.h"
#include "ebb/use.h"

namespace ebb {

struct CudaMirrorOptions {
  int device = 0;  // as CUDA counts GPUs
  // How long synchronize(), or a launch on managed memory, waits. After that the GPU is given up.
  std::chrono::milliseconds launch_timeout{1'800'000};
  std::string cuda_library = "libcuda.so.1";
  std::string nvrtc_library{};  // empty: what the loader finds
};

class CudaMirror {
 public:
  // Throws Error(kUnsupported) with the remedy: no driver, no GPU, one that does not reach pageable memory, no NVRTC;
  // kInvalid: no such GPU, nonsense options.
  static std::shared_ptr<CudaMirror> open(const CudaMirrorOptions& options = {});
  virtual ~CudaMirror() = default;

  // The CUstream of the kernels.
  virtual DeviceRuntime::Stream handle() const = 0;

  // As CudaStream::compile(). The kernel is for this mirror, as long as that lives.
  virtual std::shared_ptr<CudaKernel> compile(const std::string& source, const std::string& function) = 0;

  // Starts a kernel, and returns. `parameters` point to the value of each parameter, as for cuLaunchKernel; `uses` are
  // all that it touches. Every use is checked first: throws Error(kInvalid) with address, access and mapping for one
  // that is not mapped, or not permitted, and nothing has run. All of it stays mapped until synchronize() has returned.
  //
  // `runtime`: whose managed memory may be among the uses, at most half of what it keeps in memory: else kNoMemory. It
  // is announced and held (Runtime::hold()), and the launch returns when the kernel is over, because a GPU cannot wait
  // for absent memory. Managed memory without its runtime is not told from other memory, and the kernel ends CUDA where
  // it is absent.
  //
  // Other errors: kCorrupt (flash has lost a use), kIoError (the GPU failed, or did not end in time: then managed
  // memory stays held for ever), kUnsupported (a forked child).
  virtual void launch(const CudaKernel& kernel, CudaGrid grid, std::span<const void* const> parameters,
                      std::span<const Use> uses, Runtime* runtime = nullptr) = 0;

  // Advice, in the order of the launches: whole pages of 4 KiB move to the GPU's memory, or home. False, and nothing
  // happens: this driver does not move them; kernels and the CPU fetch what they touch all the same. Throws
  // Error(kInvalid) for what is not whole pages, or not mapped. Not for managed memory: a Runtime cannot move to flash
  // what lies on the GPU.
  virtual bool migrate_to_device(const void* data, std::size_t bytes) = 0;
  virtual bool migrate_to_host(const void* data, std::size_t bytes) = 0;

  // Waits for all that was given. Throws Error(kIoError) when the GPU is lost, or a kernel hangs.
  virtual void synchronize() = 0;
  // The GPU, and how it reaches memory, in one line.
  virtual std::string description() const = 0;
};

}  // namespace ebb
