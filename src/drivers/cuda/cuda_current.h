// CudaDevice::Current: makes a device's context current in this thread for the life of an object of it.
#pragma once

#include "drivers/cuda/cuda_device.h"

namespace ebb {

class CudaDevice::Current {
 public:
  explicit Current(CudaDevice& device) : device_(device) {
    if (device.context_ == nullptr) return;
    cuda::Context current = nullptr;
    if (device.api_.context_current(&current) == cuda::kSuccess && current == device.context_) return;
    pushed_ = device.api_.context_push(device.context_) == cuda::kSuccess;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    cuda::Context popped = nullptr;
    if (pushed_) static_cast<void>(device_.api_.context_pop(&popped));
  }

 private:
  CudaDevice& device_;
  bool pushed_ = false;
};

}  // namespace ebb
