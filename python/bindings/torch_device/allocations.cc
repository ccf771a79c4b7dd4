// See allocations.h.
#include "bindings/torch_device/allocations.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace ebb::torch_adapter {
namespace {

ManagedDevice* g_device = nullptr;

struct Allocations {
  std::mutex mutex;
  std::unordered_set<const void*> unseen;
  std::unordered_map<const void*, std::vector<void*>> other_streams;  // that use it until it is freed
  std::atomic<std::size_t> unseen_count{0};
};

Allocations& all() {
  static auto* const made = new Allocations;
  return *made;
}

[[noreturn]] void raise(const Error& error) {
  TORCH_CHECK_WITH(OutOfMemoryError, error.status() != Status::kNoMemory, error.what());
  TORCH_CHECK(false, error.what());
}

}  // namespace

ManagedDevice* managed_device() { return g_device; }

void set_managed_device(DeviceRuntime& runtime, c10::Device device) {
  if constexpr (!GivesHandles<c10::impl::VirtualGuardImpl>) {
    throw Error(Status::kUnsupported,
                "this PyTorch does not tell the handles of streams, by which work on a GPU is announced: install "
                "PyTorch 2.11 or newer");
  }
  if (g_device == nullptr) g_device = new ManagedDevice(runtime, device);
}

bool any_unseen() { return all().unseen_count.load(std::memory_order_relaxed) > 0; }

bool see(const void* data) {
  Allocations& known = all();
  const std::lock_guard lock(known.mutex);
  if (known.unseen.erase(data) == 0) return false;
  --known.unseen_count;
  return true;
}

}  // namespace ebb::torch_adapter

using namespace ebb::torch_adapter;

void* ebb_device_allocate(ssize_t bytes, int device, void* stream) {
  if (bytes == 0) return nullptr;
  ManagedDevice* const managed = managed_device();
  TORCH_CHECK(managed != nullptr, "Ebbtide's allocator was installed before Ebbtide: call ebbtide.enable() first");
  TORCH_CHECK(device == managed->device().index(), "Ebbtide manages ", managed->device(),
              " alone, and a tensor was asked for on device ", device,
              ": use one GPU, or choose which with --device (EBB_DEVICE)");
  void* data = nullptr;
  try {
    data = managed->runtime().allocate_on(stream, static_cast<std::size_t>(bytes));
  } catch (const ebb::Error& error) {
    raise(error);
  }
  Allocations& known = all();
  const std::lock_guard lock(known.mutex);
  known.unseen.insert(data);
  ++known.unseen_count;
  return data;
}

void ebb_device_free(void* data, ssize_t, int, void* stream) {
  ManagedDevice* const managed = managed_device();
  if (data == nullptr || managed == nullptr) return;
  static_cast<void>(see(data));
  std::vector<void*> others;
  {
    Allocations& known = all();
    const std::lock_guard lock(known.mutex);
    if (const auto found = known.other_streams.find(data); found != known.other_streams.end()) {
      others = std::move(found->second);
      known.other_streams.erase(found);
    }
  }
  for (void* const other : others) managed->runtime().use_on(other, data);
  managed->runtime().deallocate_on(data, stream);
}

void ebb_device_record_stream(void* data, void* stream) {
  Allocations& known = all();
  const std::lock_guard lock(known.mutex);
  std::vector<void*>& streams = known.other_streams[data];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}
