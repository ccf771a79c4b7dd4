// KernelStream: the CudaStream on the driver API. Every piece of work is announced to the runtime, given to the stream,
// and retired at once: what it touches then stays until it is over, and the runtime keeps the order with its own
// copies.
//
// Owned by whoever opened it. One lock guards it: what is given by several threads is given one after the other, also
// while a launch is being made ready, or a copy or synchronize() waits for the GPU. A lost GPU, or a forked child, is
// asked for nothing any more: all is left to the driver. Invariant: a compiled kernel that has been launched since the
// last synchronize() is in kernels_.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "drivers/cuda/cuda_current.h"
#include "drivers/cuda/kernels/compiler.h"
#include "drivers/cuda/kernels/cublas_api.h"
#include "drivers/cuda/kernels/loaded_kernel.h"
#include "ebb/cuda/stream.h"

namespace ebb {

class KernelStream final : public CudaStream {
 public:
  explicit KernelStream(std::shared_ptr<DeviceRuntime> runtime);
  ~KernelStream() override;

  const std::shared_ptr<DeviceRuntime>& runtime() const override { return runtime_; }
  DeviceRuntime::Stream handle() const override { return stream_; }
  std::shared_ptr<CudaKernel> compile(const std::string& source, const std::string& function) override;
  void launch(const CudaKernel& kernel, CudaGrid grid, std::span<const void* const> parameters,
              std::span<const Access> accesses) override;
  bool multiply(const CudaProduct& product) override;
  bool fits(std::span<const Access> accesses, std::size_t launches) const override;
  void copy_in(void* to, std::span<const std::byte> from) override;
  void copy_out(std::span<std::byte> to, const void* from) override;
  void synchronize() override;

 private:
  using Kernel = cuda::LoadedKernel;
  class Launch;
  struct Tile;
  using Lock = std::unique_lock<std::mutex>;

  // A piece of pinned memory that a copy goes through, and the event behind that copy.
  struct Staging {
    std::byte* data = nullptr;
    cuda::Event done = nullptr;
    bool is_open = false;  // the event could not be recorded behind the last copy yet
  };

  void make();
  void release();
  void check(cuda::Result result, const char* what) const;
  void wait(cuda::Event event) const;
  void wait(Staging& staging);
  void start_copy(Staging& staging, void* to, const void* from, std::size_t bytes, bool in);
  bool find_cublas();
  bool make_tile(const CudaProduct& product, Tile& tile) const;
  void multiply(const CudaProduct& part, bool accumulate);

  const std::shared_ptr<DeviceRuntime> runtime_;
  const int process_;
  mutable std::mutex mutex_;
  cuda::Api api_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  cuda::Compiler compiler_;
  std::map<std::string, std::shared_ptr<Kernel>> kernels_;  // by function and source
  cuda::Cublas cublas_;
  cuda::Cublas::Handle cublas_handle_ = nullptr;
  bool cublas_sought_ = false;
  std::uint64_t budget_bytes_ = 0;  // of memory that launches may use at once
  std::size_t staging_bytes_ = 0;
  std::byte* pinned_ = nullptr;
  std::array<Staging, 2> staging_;
  cuda::Event end_ = nullptr;  // of synchronize()
};

}  // namespace ebb
