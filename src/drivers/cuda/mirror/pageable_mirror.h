// PageableMirror: the CudaMirror on the driver API, on a GPU with CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS.
//
// Owned by whoever opened it. mutex_ guards the stream and the kernels, and is never held while the GPU is waited for;
// launch_mutex_, taken before it, lets one launch on managed memory run at a time. A GPU that was lost or given up, or
// a forked child, is asked for nothing any more: all is left to the driver. Invariant: a kernel that may run is in
// running_.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "drivers/cuda/cuda_gpu.h"
#include "drivers/cuda/kernels/compiler.h"
#include "drivers/cuda/kernels/loaded_kernel.h"
#include "drivers/linux/process/process_map.h"
#include "ebb/cuda/mirror.h"

namespace ebb::cuda {

class PageableMirror final : public CudaMirror {
 public:
  explicit PageableMirror(const CudaMirrorOptions& options);
  ~PageableMirror() override;

  DeviceRuntime::Stream handle() const override { return stream_; }
  std::shared_ptr<CudaKernel> compile(const std::string& source, const std::string& function) override;
  void launch(const CudaKernel& kernel, CudaGrid grid, std::span<const void* const> parameters,
              std::span<const Use> uses, Runtime* runtime) override;
  bool migrate_to_device(const void* data, std::size_t bytes) override { return migrate(data, bytes, gpu_.device); }
  bool migrate_to_host(const void* data, std::size_t bytes) override { return migrate(data, bytes, kHost); }
  void synchronize() override;
  std::string description() const override;

 private:
  class Mark;
  using Lock = std::unique_lock<std::mutex>;

  void make();
  void release();
  void leave();
  void check_usable() const;
  void check(Result result, const char* what) const;
  void wait(Event event) const;
  std::shared_ptr<LoadedKernel> ours(const CudaKernel& kernel) const;
  void start(const std::shared_ptr<LoadedKernel>& kernel, CudaGrid grid, std::span<const void* const> parameters);
  bool migrate(const void* data, std::size_t bytes, Device to);

  const CudaMirrorOptions options_;
  const int process_;
  ProcessMap map_;
  Gpu gpu_;
  Compiler compiler_;
  Stream stream_ = nullptr;
  std::mutex launch_mutex_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<LoadedKernel>> kernels_;  // by function and source
  std::set<std::shared_ptr<LoadedKernel>> running_;               // started since it was last known that all is over
  mutable std::atomic<bool> is_given_up_{false};                  // lost, or it did not end in time
};

}  // namespace ebb::cuda
