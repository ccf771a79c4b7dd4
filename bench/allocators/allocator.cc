// See allocator.h.
#include "allocator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <new>

namespace ebb::bench {
namespace {

// Of whatever library provides malloc.
class Malloc final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    if (::posix_memalign(&data, 64, bytes) != 0) throw std::bad_alloc();
    return data;
  }
  void deallocate(void* data) override { std::free(data); }
};

class Managed final : public Allocator {
 public:
  Managed(std::uint64_t memory, const std::string& flash) {
    Options options;
    options.memory = memory;
    options.flash = flash;
    options.flash_bytes = memory;
    runtime_ = Runtime::open(options);
  }
  void* allocate(std::size_t bytes) override { return runtime_->allocate(bytes); }
  void deallocate(void* data) override { runtime_->deallocate(data); }
  Stats stats() const override { return runtime_->stats(); }

 private:
  std::shared_ptr<Runtime> runtime_;
};

// PyTorch's own for the CPU, by the names of its functions: c10::alloc_cpu(size_t) and c10::free_cpu(void*).
class Torch final : public Allocator {
 public:
  explicit Torch(const std::string& library) {
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW);
    if (handle == nullptr)
      throw Error(Status::kInvalid, std::string("PyTorch's library cannot be loaded: ") + ::dlerror());
    allocate_ = reinterpret_cast<void* (*)(std::size_t)>(::dlsym(handle, "_ZN3c109alloc_cpuEm"));
    free_ = reinterpret_cast<void (*)(void*)>(::dlsym(handle, "_ZN3c108free_cpuEPv"));
    if (allocate_ == nullptr || free_ == nullptr) {
      throw Error(Status::kUnsupported, "'" + library + "' has no c10::alloc_cpu: another version of PyTorch");
    }
  }
  void* allocate(std::size_t bytes) override { return allocate_(bytes); }
  void deallocate(void* data) override { free_(data); }

 private:
  void* (*allocate_)(std::size_t) = nullptr;
  void (*free_)(void*) = nullptr;
};

}  // namespace

std::unique_ptr<Allocator> make_allocator(const std::string& name, std::uint64_t memory, const std::string& flash) {
  if (name == "malloc") return std::make_unique<Malloc>();
  if (name == "ebb") return std::make_unique<Managed>(memory, flash);
  return std::make_unique<Torch>(name);
}

}  // namespace ebb::bench
