// The Python module _soft_device: registers the device with PyTorch, and shows what the software driver has found.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "soft_group.h"
#include "soft_memory.h"
#include "soft_stream.h"

namespace ebb::soft_device {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  at::Device getDeviceFromPtr(void*) const override { return kDevice; }
  // Kernels run on the CPU, and draw their random numbers there.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

void start(const std::string& extension, std::size_t memory_bytes) {
  soft::Machine machine;
  machine.memory_bytes = memory_bytes;
  soft::reset(machine);
  load_entry_points(extension);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(kType, allocator());
}

}  // namespace

PYBIND11_MODULE(_soft_device, m) {
  m.def("start", &start);
  m.def("synchronize", &synchronize_device, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("touch", [](std::uintptr_t address, std::size_t bytes, bool write) {
    auto* const first = reinterpret_cast<volatile char*>(address);
    run_in_stream("touch", {{reinterpret_cast<const void*>(address), bytes, write}}, [=] {
      for (std::size_t i = 0; i < bytes; ++i) first[i] = write ? 1 : first[i];
    });
  });
  m.def("record_stream", [](std::uintptr_t address) {
    record_stream(c10::DataPtr(reinterpret_cast<void*>(address), kDevice), current_handle());
  });
  m.def("make_group", &make_group);
  m.def("allocate",
        [](std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(allocator()->raw_allocate(bytes)); });
  m.def("free", [](std::uintptr_t address) { allocator()->raw_deallocate(reinterpret_cast<void*>(address)); });
  m.def("violations", &soft::take_violations);
}

}  // namespace ebb::soft_device
