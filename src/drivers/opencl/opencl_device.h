// ClDevice: the OpenClDevice on OpenCL 1.2.
//
// A launch: check the arguments, bring what is staged to the device, announce managed memory, set the arguments, run,
// bring back what was written. All of it on the calling thread, which waits; the queue keeps launches in order.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "drivers/linux/process/process_map.h"
#include "drivers/opencl/opencl_kernel.h"
#include "drivers/opencl/opencl_queue.h"
#include "drivers/opencl/opencl_spans.h"
#include "ebb/opencl/device.h"

namespace ebb::opencl {

class ClDevice final : public OpenClDevice {
 public:
  explicit ClDevice(const OpenClOptions& options);

  const OpenClDeviceInfo& info() const override { return queue_->found().info; }
  OpenClPath path() const override { return path_; }
  std::shared_ptr<OpenClKernel> compile(const std::string& source, const std::string& function,
                                        const std::string& options) override;
  OpenClReport launch(const OpenClKernel& kernel, const OpenClRange& range, std::span<const OpenClArgument> arguments,
                      Runtime* runtime) override;
  bool usable() const override { return queue_->usable(); }
  OpenClStats stats() const override;
  std::string description() const override;

 private:
  std::shared_ptr<Queue> queue_;
  OpenClPath path_ = OpenClPath::kStaged;
  ProcessMap map_;
  KernelCache kernels_;
  std::atomic<std::uint64_t> launches_{0}, shared_{0}, copied_in_{0}, copied_out_{0};
};

}  // namespace ebb::opencl
