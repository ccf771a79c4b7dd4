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
  if (const Status status = cuda::Api::load(config.library, made->api_, reason); status != Status::kOk) return status;
  if (const Status status = made->find_device(reason); status != Status::kOk) return status;
  {
    const cuda::Current current(made->api_, made->context_);
    if (const Status status = made->check_memory(reason); status != Status::kOk) return status;
    if (const Status status = made->allocate_host(reason); status != Status::kOk) return status;
    if (const Status status = made->make_streams(reason); status != Status::kOk) return status;
    const std::size_t homes = config.frames * config.block_bytes;
    cuda::Result result = made->api_.reserve(&made->space_, made->bytes(), config.block_bytes, 0, 0);
    if (result == kSuccess) result = made->api_.reserve(&made->homes_, homes, config.block_bytes, 0, 0);
    if (result != kSuccess) return made->refuse(result, "addresses on the GPU cannot be reserved", reason);
  }
  made->frames_.assign(config.frames, 0);
  made->blocks_.assign(config.blocks, false);
  device = std::move(made);
  return Status::kOk;
}

Status CudaDevice::refuse(cuda::Result error, const std::string& what, std::string& reason) {
  reason = what + ": " + api_.text(error);
  return error == cuda::kOutOfMemory ? Status::kNoMemory : Status::kUnsupported;
}

Status CudaDevice::find_device(std::string& reason) {
  if (const cuda::Result error = api_.init(0); error != kSuccess) {
    const char* remedy = "; nvidia-smi says more";
    if (error == cuda::kNoDevice) remedy = "; give the process a GPU (CUDA_VISIBLE_DEVICES, --gpus of the container)";
    if (error == cuda::kStubLibrary) remedy = "; the stub of the toolkit was loaded: put the driver's before it";
    if (error == cuda::kDriverMismatch) remedy = "; the library does not fit the kernel's driver: restart the machine";
    const Status status = refuse(error, "the CUDA driver does not start", reason);
    reason += remedy;
    return status;
  }
  int count = 0;
  cuda::Result error = api_.device_count(&count);
  if (error != kSuccess) return refuse(error, "the GPUs cannot be counted", reason);
  if (config_.ordinal < 0 || config_.ordinal >= count) {
    reason = "there is no GPU " + std::to_string(config_.ordinal) + ": this process sees " + std::to_string(count);
    return Status::kInvalid;
  }
  error = api_.device_get(&device_, config_.ordinal);
  char name[256] = "?";
  if (error == kSuccess) error = api_.device_name(name, sizeof name, device_);
  name_ = name;
  int supported = 0;
  if (error == kSuccess) error = api_.device_attribute(&supported, cuda::kAttributeVirtualMemory, device_);
  if (error != kSuccess) return refuse(error, "GPU " + std::to_string(config_.ordinal) + " cannot be used", reason);
  if (!api_.has_virtual_memory() || supported == 0) {
    reason = "the GPU '" + name_ + "' or its driver has no virtual memory API (CUDA 11.2, cuMemMap): tensors cannot " +
             "move there";
    return Status::kUnsupported;
  }
  error = api_.context_retain(&context_, device_);
  if (error != kSuccess) return refuse(error, "GPU '" + name_ + "' has no room for a context", reason);
  return Status::kOk;
}

Status CudaDevice::check_memory(std::string& reason) {
  properties_.type = cuda::kAllocationPinned;
  properties_.location = {cuda::kLocationDevice, device_};
  std::size_t granularity = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::Result error = api_.granularity(&granularity, &properties_, cuda::kGranularityMinimum);
  if (error == kSuccess) error = api_.memory_info(&free, &total);
  if (error != kSuccess) return refuse(error, "the memory of the GPU '" + name_ + "' cannot be examined", reason);
  if (granularity == 0 || config_.block_bytes % granularity != 0) {
    reason = "blocks of " + format_size(config_.block_bytes) + " cannot be mapped on the GPU '" + name_ +
             "': take a multiple of " + format_size(granularity) + " (EBB_BLOCK)";
    return Status::kInvalid;
  }
  const std::size_t wanted = config_.frames * config_.block_bytes;
  if (wanted <= free) return Status::kOk;
  reason = "the GPU '" + name_ + "' has " + format_size(free) + " of " + format_size(total) + " free, less than the " +
           format_size(wanted) + " asked for: give less with --device-memory (EBB_DEVICE_MEMORY)";
  return Status::kNoMemory;
}

Status CudaDevice::allocate_host(std::string& reason) {
  const cuda::Result error = api_.host_allocate(&host_, config_.host_bytes, cuda::kHostPortable);
  if (error == kSuccess) return Status::kOk;
  host_ = nullptr;
  const Status status =
      refuse(error, format_size(config_.host_bytes) + " of host memory cannot be pinned for the GPU", reason);
  reason += "; give less with --memory (EBB_MEMORY), or lift ulimit -l";
  return status;
}

Status CudaDevice::make_streams(std::string& reason) {
  for (cuda::Stream* const stream : {&in_, &out_}) {
    const cuda::Result error = api_.stream_create(stream, cuda::kStreamNonBlocking);
    if (error == kSuccess) continue;
    *stream = nullptr;
    return refuse(error, "the GPU '" + name_ + "' gives no stream for copies", reason);
  }
  return Status::kOk;
}

std::string CudaDevice::description() const {
  int version = 0;
  static_cast<void>(api_.driver_version(&version));
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + " on " + name_ + ", " +
         format_size(config_.frames * config_.block_bytes) + " of its memory";
}

}  // namespace ebb
