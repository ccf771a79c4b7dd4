// See cuda_probe.h.
#include "drivers/cuda/cuda_probe.h"

#include "drivers/cuda/cuda_current.h"
#include "drivers/cuda/cuda_gpu.h"
#include "ebb/units.h"

namespace ebb::cuda {
namespace {

Status examine(const Gpu& gpu, GpuFacts& facts, std::string& reason) {
  facts.name = gpu.name;
  facts.virtual_memory = gpu.virtual_memory;
  int major = 0, minor = 0, pageable = 0, tables = 0;
  Result error = gpu.api.device_memory(&facts.memory_bytes, gpu.device);
  const auto ask = [&](int& value, int attribute) {
    if (error == kSuccess) error = gpu.api.device_attribute(&value, attribute, gpu.device);
  };
  ask(major, kAttributeMajor);
  ask(minor, kAttributeMinor);
  ask(pageable, kAttributePageableAccess);
  ask(tables, kAttributeHostPageTables);
  facts.capability = 10 * major + minor;
  facts.pageable_access = pageable != 0;
  facts.host_page_tables = tables != 0;
  if (error == kSuccess) return Status::kOk;
  static_cast<void>(gpu.refuse(error, "the GPU '" + gpu.name + "' cannot be examined", reason));
  return Status::kIoError;
}

}  // namespace

Status probe(const std::string& library, CudaFacts& facts, std::string& reason) {
  int count = 1;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Gpu gpu;
    if (const Status status = gpu.find(library, ordinal, reason); status != Status::kOk) return Status::kUnsupported;
    GpuFacts found;
    if (const Status status = examine(gpu, found, reason); status != Status::kOk) return status;
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
