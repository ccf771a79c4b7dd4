// See soft_memory.h.
#include "soft_memory.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "soft_stream.h"

namespace ebb::soft_device {
namespace {

struct EntryPoints {
  void* (*allocate)(ssize_t bytes, int device, void* stream) = nullptr;
  void (*free)(void* data, ssize_t bytes, int device, void* stream) = nullptr;
  void (*record_stream)(void* data, void* stream) = nullptr;
};
EntryPoints g_entry;

// What CUDAPluggableAllocator keeps.
struct Given {
  std::size_t bytes = 0;
  void* stream = nullptr;
};
std::mutex g_mutex;
std::unordered_map<void*, Given>& given() {
  static auto* const made = new std::unordered_map<void*, Given>;
  return *made;
}

void give_back(void* data) {
  Given known;
  {
    const std::lock_guard lock(g_mutex);
    known = given().at(data);
    given().erase(data);
  }
  g_entry.free(data, static_cast<ssize_t>(known.bytes), 0, known.stream);
}

class SoftAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK(g_entry.allocate != nullptr, "the soft device has no allocator yet");
    void* const stream = current_handle();
    void* const data = g_entry.allocate(static_cast<ssize_t>(bytes), 0, stream);
    if (data != nullptr) {
      const std::lock_guard lock(g_mutex);
      given()[data] = {bytes, stream};
    }
    return {data, data, &give_back, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    run_in_stream("copy_data", {{from, bytes, false}, {to, bytes, true}}, [=] { std::memcpy(to, from, bytes); });
  }
};

template <typename Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  TORCH_CHECK(function != nullptr, name, " is not exported");
}

}  // namespace

void record_stream(const c10::DataPtr& data, void* stream) {
  if (data.get() != nullptr) g_entry.record_stream(data.get(), stream);
}

void load_entry_points(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  TORCH_CHECK(library != nullptr, path, " is not loaded");
  load(library, "ebb_device_allocate", g_entry.allocate);
  load(library, "ebb_device_free", g_entry.free);
  load(library, "ebb_device_record_stream", g_entry.record_stream);
}

c10::Allocator* allocator() {
  static auto* const made = new SoftAllocator;
  return made;
}

void resize_storage(c10::StorageImpl& storage, std::size_t bytes) {
  c10::DataPtr fresh = allocator()->allocate(bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  const void* const from = storage.data();
  void* const to = fresh.get();
  if (kept > 0) allocator()->copy_data(to, from, kept);
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

}  // namespace ebb::soft_device
