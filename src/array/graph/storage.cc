// Storage: from the Runtime in use, or from the heap with a bounded cache of freed memory.
#include "array/graph/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "ebb/array.h"
#include "ebb/status.h"

namespace ebb {
namespace array {
namespace {

constexpr std::size_t kCachedMin = 64 * kKiB;
constexpr std::size_t kCacheBytes = 512 * kMiB;
constexpr std::size_t kHuge = 2 * kMiB;

std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = bytes >= kHuge ? kHuge : bytes >= kCachedMin ? 4 * kKiB : 64;
  return (bytes + unit - 1) / unit * unit;
}

// Freed memory by size, newest last. Never destroyed.
struct Heap {
  std::mutex mutex;
  std::multimap<std::size_t, void*> free;
  std::size_t free_bytes = 0;
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<CudaStream> device;  // of the runtime, if that is one of a GPU

  void* allocate(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    {
      std::lock_guard lock(mutex);
      if (auto found = free.find(size); found != free.end()) {
        void* data = found->second;
        free.erase(found);
        free_bytes -= size;
        return data;
      }
    }
    void* data = std::aligned_alloc(size >= kHuge ? kHuge : 64, size);
    if (data == nullptr) {
      throw Error(Status::kNoMemory, "array: no memory for " + format_size(size) +
                                         "; open a Runtime and give it to use_runtime() to go beyond it");
    }
    if (size >= kHuge) madvise(data, size, MADV_HUGEPAGE);
    return data;
  }

  void release(void* data, std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    if (size >= kCachedMin) {
      std::lock_guard lock(mutex);
      if (free_bytes + size <= kCacheBytes) {
        free.emplace(size, data);
        free_bytes += size;
        return;
      }
    }
    std::free(data);
  }
};

thread_local int t_on_host = 0;

Heap& heap() {
  static auto* const instance = new Heap;
  return *instance;
}

}  // namespace

Storage::~Storage() {
  if (owner != nullptr || data == nullptr) return;
  if (runtime != nullptr) {
    runtime->deallocate(data);
  } else {
    heap().release(data, bytes);
  }
}

StoragePtr allocate_storage(std::size_t bytes) {
  auto storage = std::make_shared<Storage>();
  if (bytes == 0) bytes = 1;
  std::shared_ptr<Runtime> runtime;
  {
    std::lock_guard lock(heap().mutex);
    if (heap().device == nullptr || t_on_host == 0) runtime = heap().runtime;
    if (runtime != nullptr) storage->device = heap().device;
  }
  storage->data = runtime ? runtime->allocate(bytes) : heap().allocate(bytes);
  storage->bytes = bytes;
  storage->runtime = std::move(runtime);
  return storage;
}

StoragePtr allocate_storage(std::size_t bytes, const std::shared_ptr<CudaStream>& device) {
  if (device == nullptr) {
    const OnHost scope;
    return allocate_storage(bytes);
  }
  auto storage = std::make_shared<Storage>();
  storage->bytes = std::max<std::size_t>(bytes, 1);
  storage->data = device->runtime()->allocate(storage->bytes);
  storage->runtime = device->runtime();
  storage->device = device;
  return storage;
}

StoragePtr adopt_storage(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  auto storage = std::make_shared<Storage>();
  storage->data = data;
  storage->bytes = bytes;
  storage->owner = owner ? std::move(owner) : std::make_shared<int>(0);
  return storage;
}

std::shared_ptr<CudaStream> current_device() {
  if (t_on_host > 0) return nullptr;
  std::lock_guard lock(heap().mutex);
  return heap().device;
}

OnHost::OnHost() { ++t_on_host; }
OnHost::~OnHost() { --t_on_host; }

}  // namespace array

void use_runtime(std::shared_ptr<Runtime> runtime) {
  auto gpu = std::dynamic_pointer_cast<DeviceRuntime>(runtime);
  std::shared_ptr<CudaStream> device = gpu != nullptr ? CudaStream::open(std::move(gpu)) : nullptr;
  auto& heap = array::heap();
  const std::lock_guard lock(heap.mutex);
  heap.runtime.swap(runtime);  // the old ones are destroyed by the caller, without the lock
  heap.device.swap(device);
}

}  // namespace ebb
