// Storage: one piece of memory under one or more arrays, and where it came from.
//
// Owned by the nodes that lie in it. Freed memory of at least kCachedMin bytes is kept for the next request of its
// size, up to kCacheBytes: a fresh page costs more than a pass over it. With a Runtime, its own cache does that. Any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ebb/cuda/stream.h"
#include "ebb/runtime.h"

namespace ebb::array {

struct Node;

struct Storage {
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  // Takes over the memory of `other`, which is left with none.
  void take_from(Storage& other) {
    std::swap(data, other.data);
    std::swap(bytes, other.bytes);
    runtime.swap(other.runtime);
    device.swap(other.device);
  }

  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<Runtime> runtime;    // that gave `data`; null: the heap, or `owner`
  std::shared_ptr<CudaStream> device;  // set: `data` is memory of this GPU, which the host cannot look at
  std::shared_ptr<void> owner;         // keeps foreign memory

  // Lazy nodes that read this memory when they run: evaluated before somebody writes to it.
  std::mutex pending_mutex;
  std::vector<std::weak_ptr<Node>> pending;
  std::size_t pending_prune_at = 64;
};
using StoragePtr = std::shared_ptr<Storage>;

StoragePtr allocate_storage(std::size_t bytes);  // aligned to 64 bytes, not initialised; throws Error(kNoMemory)
StoragePtr allocate_storage(std::size_t bytes, const std::shared_ptr<CudaStream>& device);  // null: in host memory
StoragePtr adopt_storage(void* data, std::size_t bytes, std::shared_ptr<void> owner);
// Where new arrays lie: on the GPU of the runtime in use, or, where it has none, null.
std::shared_ptr<CudaStream> current_device();

// While one of these lives, what this thread allocates is host memory, whatever the runtime in use.
class OnHost {
 public:
  OnHost();
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;
  ~OnHost();
};

}  // namespace ebb::array
