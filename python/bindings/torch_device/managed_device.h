// ManagedDevice: the device of PyTorch's whose tensors a DeviceRuntime holds: `cuda` in programs, and in tests, which
// have no GPU, whatever device stands for one. Everything here goes through the guard that PyTorch registers for a
// type of device, so that the extension links no library of CUDA's.
//
// One for a process, set once and never destroyed: PyTorch frees tensors until the very end. Any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "ebb/device.h"

namespace ebb::torch_adapter {

// PyTorch knew no stream's handle by its guard before 2.11.
template <typename Guard>
concept GivesHandles = requires(const Guard& guard, c10::Stream stream) {
  guard.getStreamNativeHandle(stream);
};

class ManagedDevice {
 public:
  ManagedDevice(DeviceRuntime& runtime, c10::Device device) : runtime_(runtime), device_(device) {}

  DeviceRuntime& runtime() const { return runtime_; }
  c10::Device device() const { return device_; }

  template <typename Guard = c10::impl::VirtualGuardImpl>
  DeviceRuntime::Stream current_stream() const {
    if constexpr (GivesHandles<Guard>) {
      const Guard guard(device_.type());
      return guard.getStreamNativeHandle(guard.getStream(device_));
    } else {
      return nullptr;  // set_managed_device() has refused
    }
  }

 private:
  DeviceRuntime& runtime_;
  c10::Device device_;
};

// The one of this process; null before set_managed_device(), which throws Error where this PyTorch cannot do it.
ManagedDevice* managed_device();
void set_managed_device(DeviceRuntime& runtime, c10::Device device);

}  // namespace ebb::torch_adapter
