// See cuda_gpu.h.
#include "drivers/cuda/cuda_gpu.h"

namespace ebb::cuda {

Status Gpu::refuse(Result error, const std::string& what, std::string& reason) const {
  reason = what + ": " + api.text(error);
  return error == kOutOfMemory ? Status::kNoMemory : Status::kUnsupported;
}

Status Gpu::find(const std::string& library, int ordinal, std::string& reason) {
  if (const Status status = Api::load(library, api, reason); status != Status::kOk) return status;
  if (const Result error = api.init(0); error != kSuccess) {
    const char* remedy = "; nvidia-smi says more";
    if (error == kNoDevice) remedy = "; give the process a GPU (CUDA_VISIBLE_DEVICES, --gpus of the container)";
    if (error == kNotInitialized) remedy = "; this process was forked from one that used CUDA: start it with spawn";
    if (error == kStubLibrary) remedy = "; the stub of the toolkit was loaded: put the driver's before it";
    if (error == kDriverMismatch) remedy = "; the library does not fit the kernel's driver: restart the machine";
    const Status status = refuse(error, "the CUDA driver does not start", reason);
    reason += remedy;
    return status;
  }
  int count = 0;
  Result error = api.device_count(&count);
  if (error != kSuccess) return refuse(error, "the GPUs cannot be counted", reason);
  if (ordinal < 0 || ordinal >= count) {
    reason = "there is no GPU " + std::to_string(ordinal) + ": this process sees " + std::to_string(count);
    return Status::kInvalid;
  }
  error = api.device_get(&device, ordinal);
  char text[256] = "?";
  if (error == kSuccess) error = api.device_name(text, sizeof text, device);
  name = text;
  const auto ask = [&](int attribute) {
    int value = 0;
    if (error == kSuccess) error = api.device_attribute(&value, attribute, device);
    return value;
  };
  virtual_memory = ask(kAttributeVirtualMemory) != 0;
  pageable_access = ask(kAttributePageableAccess) != 0;
  host_page_tables = ask(kAttributeHostPageTables) != 0;
  capability = 10 * ask(kAttributeMajor) + ask(kAttributeMinor);
  if (error != kSuccess) return refuse(error, "GPU " + std::to_string(ordinal) + " cannot be used", reason);
  return Status::kOk;
}

Status Gpu::enter(std::string& reason) {
  const Result error = api.context_retain(&context, device);
  if (error == kSuccess) return Status::kOk;
  context = nullptr;
  return refuse(error, "GPU '" + name + "' has no room for a context", reason);
}

void Gpu::let_go() {
  if (context != nullptr) static_cast<void>(api.context_release(device));
  context = nullptr;
}

}  // namespace ebb::cuda
