// The entry points of the software CUDA driver that load and start kernels: libraries that the software NVRTC has made.
#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "drivers/cuda/kernels/change_kernels.h"
#include "soft_world.h"

using namespace ebb::cuda;
using namespace ebb::soft;

namespace {

constexpr char kMark[] = "software image ";

SoftModule* module_of(World& all, Module module) {
  const auto found = all.modules.find(module);
  return found == all.modules.end() ? nullptr : found->second.get();
}

// What the driver copies when a kernel is started: the values of its parameters.
struct Values {
  Values(const SoftFunction& function, void** parameters) {
    std::size_t bytes = 0;
    for (const unsigned* size = function.sizes; *size != 0; ++size) bytes += (*size + 15) / 16 * 16;
    memory.resize(bytes);
    std::size_t at = 0;
    for (const unsigned* size = function.sizes; *size != 0; ++size, ++parameters) {
      std::memcpy(memory.data() + at, *parameters, *size);
      offsets.push_back(at);
      at += (*size + 15) / 16 * 16;
    }
    for (const std::size_t offset : offsets) pointers.push_back(memory.data() + offset);
  }
  std::vector<std::byte> memory;
  std::vector<std::size_t> offsets;
  std::vector<void*> pointers;
};

// What the kernels of drivers/cuda/kernels/change_kernels.cc touch, as their parameters say: no test starts them, so
// none can tell. Empty: it is another kernel.
std::vector<Touch> touches_of_ours(const std::string& name, void** parameters) {
  const bool copy = name == "ebb_copy";
  if (!copy && name != "ebb_note") return {};
  const auto pointer = [&](int i) { return *static_cast<void**>(parameters[i]); };
  const std::size_t bytes = *static_cast<unsigned long long*>(parameters[3]);
  std::vector<Touch> touches{{pointer(0), bytes, false},
                             {pointer(2), bytes / ChangeKernels::kPartBytes * ChangeKernels::kDigestBytes, true}};
  if (copy) touches.push_back({pointer(1), bytes, true});
  return touches;
}

}  // namespace

extern "C" {

EBB_SOFT Result cuModuleLoadData(Module* module, const void* image) {
  Call call("cuModuleLoadData");
  if (call.result() != kSuccess) return call.result();
  const std::string text = static_cast<const char*>(image);
  if (text.rfind(kMark, 0) != 0) return kInvalidValue;
  auto made = std::make_unique<SoftModule>();
  made->library = ::dlopen(text.c_str() + sizeof kMark - 1, RTLD_NOW | RTLD_LOCAL);
  if (made->library == nullptr) {
    call->complain(std::string("an image cannot be loaded: ") + ::dlerror());
    return kInvalidValue;
  }
  *module = reinterpret_cast<Module>(made.get());
  call->modules[made.get()] = std::move(made);
  return kSuccess;
}

EBB_SOFT Result cuModuleUnload(Module module) {
  Call call("cuModuleUnload");
  if (call.result() != kSuccess) return call.result();
  const SoftModule* const found = module_of(*call, module);
  if (found == nullptr) return kInvalidHandle;
  if (call->in_use(found->users)) call->complain("a module is unloaded whose kernels still run");
  call->modules.erase(module);  // the library stays: a kernel of the same text is loaded again soon
  return kSuccess;
}

EBB_SOFT Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  Call call("cuModuleGetFunction");
  if (call.result() != kSuccess) return call.result();
  SoftModule* const found = module_of(*call, module);
  if (found == nullptr) return kInvalidHandle;
  SoftFunction& made = found->functions[name];
  made.run = reinterpret_cast<decltype(made.run)>(::dlsym(found->library, (std::string("soft_run_") + name).c_str()));
  const auto sizes =
      reinterpret_cast<const unsigned* (*)()>(::dlsym(found->library, (std::string("soft_sizes_") + name).c_str()));
  if (made.run == nullptr || sizes == nullptr) return kNotFound;
  made.sizes = sizes();
  *function = reinterpret_cast<Function>(&made);
  return kSuccess;
}

EBB_SOFT Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned, Stream stream, void** parameters,
                               void** extra) {
  Call call("cuLaunchKernel");
  if (call.result() != kSuccess) return call.result();
  SoftStream* const given = call->stream_of(stream);
  SoftModule* owner = nullptr;
  const auto* const wanted = reinterpret_cast<const SoftFunction*>(function);
  std::string name;
  for (const auto& [handle, module] : call->modules) {
    for (const auto& [known, one] : module->functions) {
      if (&one != wanted) continue;
      owner = module.get();
      name = known;
    }
  }
  if (given == nullptr || owner == nullptr) return kInvalidHandle;
  const bool empty = grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 || block_y == 0 || block_z == 0;
  if (empty || block_x * block_y * block_z > 1024 || grid_y > 65535 || grid_z > 65535 || extra != nullptr) {
    return kInvalidValue;
  }
  std::vector<Touch> touches = touches_of_ours(name, parameters);
  if (touches.empty()) touches = call->expected[stream];
  if (touches.empty()) call->complain("a kernel is started in a stream in which nothing is announced");
  const auto values = std::make_shared<Values>(*wanted, parameters);
  const std::array<unsigned, 3> grid{grid_x, grid_y, grid_z};
  const std::array<unsigned, 3> block{block_x, block_y, block_z};
  const auto run = wanted->run;
  call->start(*given, touches, [values, run, grid, block] { run(values->pointers.data(), grid.data(), block.data()); });
  owner->users.until[given->number()] = given->given;
  return kSuccess;
}

}  // extern "C"
