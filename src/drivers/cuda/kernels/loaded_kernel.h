// LoadedKernel: a compiled kernel in the context of a GPU.
//
// Shared by the cache of whoever compiled it and by its users. Unloaded when nobody has it; its context is retained by
// who compiled it, which a user keeps longer. Immutable once its maker has filled it in, but for leave().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drivers/cuda/cuda_current.h"
#include "ebb/cuda/stream.h"

namespace ebb::cuda {

class LoadedKernel final : public CudaKernel, public std::enable_shared_from_this<LoadedKernel> {
 public:
  LoadedKernel(const Api& api, Context context, const void* made_by = nullptr, std::string called = "")
      : maker(made_by), name(std::move(called)), api_(api), context_(context) {}
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  ~LoadedKernel() override {
    if (module == nullptr) return;
    const Current current(api_, context_);
    static_cast<void>(api_.module_unload(module));
  }
  // Of an image that Compiler made. On an error, `call` is what failed.
  Result load(const std::string& image, const std::string& function_name, const char*& call) {
    call = "cuModuleLoadData";
    if (const Result result = api_.module_load(&module, image.c_str()); result != kSuccess) {
      module = nullptr;
      return result;
    }
    call = "cuModuleGetFunction";
    return api_.module_function(&function, module, function_name.c_str());
  }
  Result start(Stream stream, CudaGrid grid, std::span<const void* const> parameters) const {
    std::vector<void*> values;
    for (const void* const value : parameters) values.push_back(const_cast<void*>(value));
    return api_.launch(function, grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, values.data(), nullptr);
  }
  // The driver's from now on.
  void leave() { module = nullptr; }
  std::uint64_t identity() const { return reinterpret_cast<std::uintptr_t>(this) | 1; }

  const void* const maker;
  const std::string name;
  Module module = nullptr;
  Function function = nullptr;

 private:
  const Api api_;  // by value: entry points, which outlive everything
  const Context context_;
};

}  // namespace ebb::cuda
