// See cuda_fixed.h.
#include "drivers/cuda/cuda_fixed.h"

#include "ebb/units.h"

namespace ebb {

Status CudaFixedDevice::make(const Config& config, std::unique_ptr<CudaFixedDevice>& device, std::string& reason) {
  std::unique_ptr<CudaFixedDevice> made(new CudaFixedDevice);
  made->config_ = config;
  if (const Status status = made->gpu_.find(config.library, config.ordinal, reason); status != Status::kOk)
    return status;
  if (const Status status = made->gpu_.enter(reason); status != Status::kOk) return status;
  if (const Status status = made->allocate(reason); status != Status::kOk) return status;
  device = std::move(made);
  return Status::kOk;
}

Status CudaFixedDevice::allocate(std::string& reason) {
  const cuda::Current current(gpu_.api, gpu_.context);
  cuda::Result error = gpu_.api.allocate(&memory_, config_.memory_bytes);
  if (error != cuda::kSuccess) {
    memory_ = 0;
    const Status status = gpu_.refuse(
        error, "the GPU '" + gpu_.name + "' does not give " + format_size(config_.memory_bytes) + " of its memory",
        reason);
    reason += "; give less with --device-memory (EBB_DEVICE_MEMORY)";
    return status;
  }
  if (config_.host_bytes == 0) return Status::kOk;
  error = gpu_.api.host_allocate(&pinned_, config_.host_bytes, cuda::kHostPortable | cuda::kHostMapped);
  if (error != cuda::kSuccess) pinned_ = nullptr;
  if (error == cuda::kSuccess) error = gpu_.api.host_pointer(&host_, pinned_, 0);
  if (error == cuda::kSuccess) return Status::kOk;
  const Status status = gpu_.refuse(
      error, format_size(config_.host_bytes) + " of host memory cannot be pinned and mapped for the GPU", reason);
  reason += "; give less with --memory (EBB_MEMORY)";
  return status;
}

CudaFixedDevice::~CudaFixedDevice() {
  // Of a lost GPU nobody can say what it still does with either: the driver frees them with the process.
  if (lost()) return;
  {
    const cuda::Current current(gpu_.api, gpu_.context);
    if (memory_ != 0) static_cast<void>(gpu_.api.free(memory_));
    if (pinned_ != nullptr) static_cast<void>(gpu_.api.host_free(pinned_));
  }
  gpu_.let_go();
}

std::string CudaFixedDevice::description() const { return gpu_.description(config_.memory_bytes); }

}  // namespace ebb
