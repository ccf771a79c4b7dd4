// CudaDevice: how one comes to be, and what is said when it cannot.
#include "base/check.h"
#include "drivers/cuda/cuda_current.h"
#include "drivers/cuda/cuda_device.h"
#include "ebb/units.h"

namespace ebb {

using cuda::kSuccess;

Status CudaDevice::make(const Config& config, std::unique_ptr<CudaDevice>& device, std::string& reason) {
  std::unique_ptr<CudaDevice> made(new CudaDevice);
  made->config_ = config;
  if (const Status status = made->gpu_.find(config.library, config.ordinal, reason); status != Status::kOk)
    return status;
  if (!made->gpu_.virtual_memory) {
    reason = "the GPU '" + made->gpu_.name +
             "' has no virtual memory API (cuMemMap), without which nothing can move there; choose another with " +
             "--device (EBB_DEVICE), or run without --device-memory";
    return Status::kUnsupported;
  }
  if (const Status status = made->gpu_.enter(reason); status != Status::kOk) return status;
  {
    const cuda::Current current(made->gpu_.api, made->gpu_.context);
    if (const Status status = made->check_memory(reason); status != Status::kOk) return status;
    if (const Status status = made->allocate_host(reason); status != Status::kOk) return status;
    if (const Status status = made->make_streams(reason); status != Status::kOk) return status;
    if (config.noted > 0 && config.block_bytes % cuda::ChangeKernels::kPartBytes == 0) {
      made->changes_ =
          cuda::ChangeKernels::make(made->gpu_.api, made->gpu_.context, made->gpu_.capability, config.nvrtc_library,
                                    config.block_bytes, config.noted, made->why_not_);
    }
    const std::size_t homes = config.frames * config.block_bytes;
    cuda::Result result = made->gpu_.api.reserve(&made->space_, made->bytes(), config.block_bytes, 0, 0);
    if (result == kSuccess) result = made->gpu_.api.reserve(&made->homes_, homes, config.block_bytes, 0, 0);
    if (result != kSuccess) return made->gpu_.refuse(result, "addresses on the GPU cannot be reserved", reason);
  }
  made->frames_.assign(config.frames, 0);
  made->blocks_.assign(config.blocks, false);
  device = std::move(made);
  return Status::kOk;
}

Status CudaDevice::check_memory(std::string& reason) {
  properties_.type = cuda::kAllocationPinned;
  properties_.location = {cuda::kLocationDevice, gpu_.device};
  std::size_t granularity = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::Result error = gpu_.api.granularity(&granularity, &properties_, cuda::kGranularityMinimum);
  if (error == kSuccess) error = gpu_.api.memory_info(&free, &total);
  if (error != kSuccess)
    return gpu_.refuse(error, "the memory of the GPU '" + gpu_.name + "' cannot be examined", reason);
  if (granularity == 0 || config_.block_bytes % granularity != 0) {
    reason = "blocks of " + format_size(config_.block_bytes) + " cannot be mapped on the GPU '" + gpu_.name +
             "': take a multiple of " + format_size(granularity) + " (EBB_BLOCK)";
    return Status::kInvalid;
  }
  const std::size_t wanted = config_.frames * config_.block_bytes;
  if (wanted <= free) return Status::kOk;
  reason = "the GPU '" + gpu_.name + "' has " + format_size(free) + " of " + format_size(total) +
           " free, less than the " + format_size(wanted) +
           " asked for: give less with --device-memory (EBB_DEVICE_MEMORY)";
  return Status::kNoMemory;
}

Status CudaDevice::allocate_host(std::string& reason) {
  const cuda::Result error = gpu_.api.host_allocate(&host_, config_.host_bytes, cuda::kHostPortable);
  if (error == kSuccess) return Status::kOk;
  host_ = nullptr;
  const Status status =
      gpu_.refuse(error, format_size(config_.host_bytes) + " of host memory cannot be pinned for the GPU", reason);
  reason += "; give less with --memory (EBB_MEMORY)";
  return status;
}

Status CudaDevice::make_streams(std::string& reason) {
  for (cuda::Stream* const stream : {&in_, &out_, &note_}) {
    const cuda::Result error = gpu_.api.stream_create(stream, cuda::kStreamNonBlocking);
    if (error == kSuccess) continue;
    *stream = nullptr;
    return gpu_.refuse(error, "the GPU '" + gpu_.name + "' gives no stream for copies", reason);
  }
  return Status::kOk;
}

std::string CudaDevice::description() const {
  int version = 0;
  static_cast<void>(gpu_.api.driver_version(&version));
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + " on " + gpu_.name +
         ", " + format_size(config_.frames * config_.block_bytes) + " of its memory" +
         (tells_changes() ? "" : ", all that leaves it is copied" + (why_not_.empty() ? "" : " (" + why_not_ + ")"));
}

}  // namespace ebb
