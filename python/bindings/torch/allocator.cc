// See allocator.h.
#include "bindings/torch/allocator.h"

#include <cstring>

namespace ebb::torch_adapter {
namespace {

Runtime* g_allocating = nullptr;

void free_storage(void* data) { g_allocating->deallocate(data); }

class ManagedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes == 0 ? nullptr : g_allocating->allocate(bytes);
    return {data, data, &free_storage, c10::Device(c10::DeviceType::CPU)};
  }
  // One deleter serves every pointer: oneDNN allocates its scratch through it.
  c10::DeleterFnPtr raw_deleter() const override { return &free_storage; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

ManagedAllocator& allocator() {
  static ManagedAllocator* const instance = new ManagedAllocator;
  return *instance;
}

c10::Allocator* g_former = nullptr;
// Above the allocators that extensions register with the default priority.
constexpr std::uint8_t kPriority = 100;

}  // namespace

void install_allocator(Runtime& runtime) {
  g_allocating = &runtime;
  c10::Allocator* const current = c10::GetAllocator(c10::DeviceType::CPU);
  if (current == &allocator()) return;
  g_former = current;
  c10::SetAllocator(c10::DeviceType::CPU, &allocator(), kPriority);
}

void remove_allocator() {
  if (g_former != nullptr) c10::SetAllocator(c10::DeviceType::CPU, g_former, kPriority);
}

}  // namespace ebb::torch_adapter
