// See cuda_probe.h.
#include "drivers/cuda/cuda_probe.h"

#include "drivers/cuda/cuda_current.h"
#include "ebb/units.h"

namespace ebb::cuda {

Status probe(const std::string& library, CudaFacts& facts, std::string& reason) {
  int count = 1;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Gpu gpu;
    if (const Status status = gpu.find(library, ordinal, reason); status != Status::kOk) return Status::kUnsupported;
    GpuFacts found = gpu;
    if (const Result error = gpu.api.device_memory(&found.memory_bytes, gpu.device); error != kSuccess) {
      static_cast<void>(gpu.refuse(error, "the GPU '" + gpu.name + "' cannot be examined", reason));
      return Status::kIoError;
    }
    facts.gpus.push_back(std::move(found));
    static_cast<void>(gpu.api.device_count(&count));
    static_cast<void>(gpu.api.driver_version(&facts.version));
  }
  return Status::kOk;
}

Status probe_pinning(const std::string& library, std::size_t bytes, std::string& reason) {
  Gpu gpu;
  if (const Status status = gpu.find(library, 0, reason); status != Status::kOk) return Status::kUnsupported;
  if (const Status status = gpu.enter(reason); status != Status::kOk) return Status::kIoError;
  Status status = Status::kOk;
  {
    const Current current(gpu.api, gpu.context);
    void* data = nullptr;
    const Result error = gpu.api.host_allocate(&data, bytes, kHostPortable);
    if (error == kSuccess) {
      static_cast<void>(gpu.api.host_free(data));
    } else {
      static_cast<void>(gpu.refuse(error, format_size(bytes) + " of host memory cannot be pinned", reason));
      status = Status::kIoError;
    }
  }
  gpu.let_go();
  return status;
}

}  // namespace ebb::cuda
