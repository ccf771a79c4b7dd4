// See opencl_fixture.h.
#include "opencl_fixture.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace ebb::opencl_test {
namespace {

// PoCL writes what it compiles into a folder, which is the user's unless told otherwise. ctest names one in the build.
struct TemporaryCache {
  TemporaryCache() {
    if (std::getenv("POCL_CACHE_DIR") != nullptr) return;
    std::string name = testing::TempDir() + "ebb-pocl-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return;
    folder = name;
    ::setenv("POCL_CACHE_DIR", folder.c_str(), 0);
  }
  ~TemporaryCache() {
    std::error_code error;
    if (!folder.empty()) std::filesystem::remove_all(folder, error);
  }
  std::string folder;
};

}  // namespace

const char* const kSource = R"(
__kernel void axpy(float by, __global const float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = by * x[i] + y[i];
}
__kernel void fill(__global int* out, int value) { out[get_global_id(0)] = value + (int)get_global_id(0); }
__kernel void every_second(__global int* out) { out[2 * get_global_id(0)] = 7; }
__kernel void copy4(__global const float4* x, __global float4* y) { y[get_global_id(0)] = x[get_global_id(0)]; }
__kernel void table(__global int* out) {
  out[get_global_id(1) * get_global_size(0) + get_global_id(0)] = 100 * get_local_id(1) + get_local_id(0);
}
__kernel void sum2(__global const int* a, __global const int* b, __global int* out) {
  const size_t i = get_global_id(0);
  out[i] = a[i] + b[i];
}
__kernel void with_local(__global int* out, __local int* scratch) { out[0] = scratch[0]; }
__kernel void is_null(__global int* out, __global const int* none) { out[0] = none == 0; }
)";

Layer* find_layer(std::string& reason) {
  static std::string why;
  static Layer* const found = []() -> Layer* {
    static const TemporaryCache cache;
    try {
      static_cast<void>(opencl_devices(EBB_OPENCL_BENEATH));
    } catch (const Error& error) {
      why = error.what();
      return nullptr;
    }
    void* const library = ::dlopen(EBB_OPENCL_LAYER, RTLD_NOW | RTLD_LOCAL);
    auto* const find = library != nullptr ? reinterpret_cast<Layer* (*)()>(::dlsym(library, "opencl_layer")) : nullptr;
    if (find == nullptr) {
      why = "the layer cannot be loaded";
      return nullptr;
    }
    return find();
  }();
  reason = why;
  return found;
}

void OpenClTest::SetUp() {
  std::string reason;
  layer_ = find_layer(reason);
  if (layer_ == nullptr) GTEST_SKIP() << reason;
  layer_->reset();
}

void OpenClTest::TearDown() {
  if (layer_ != nullptr) layer_->reset();
}

std::shared_ptr<OpenClDevice> OpenClTest::open(OpenClOptions options) {
  options.library = EBB_OPENCL_LAYER;
  return OpenClDevice::open(options);
}

std::vector<Way> ways() {
  return {{"SystemSvm", OpenClPath::kSystemSvm},
          {"HostPointer", OpenClPath::kHostPointer},
          {"HostPointerThatCopies", OpenClPath::kHostPointer, true},
          {"Staged", OpenClPath::kStaged},
          {"StagedGpu", OpenClPath::kStaged, false, true}};
}

void pretend(Layer& layer, const Way& way) {
  layer.system_svm = way.path == OpenClPath::kSystemSvm;
  layer.copies_host_memory = way.copies_host_memory;
  layer.as_gpu = way.as_gpu;
  layer.no_unified_memory = way.path == OpenClPath::kStaged;
}

void OpenClWays::SetUp() {
  OpenClTest::SetUp();
  if (layer_ == nullptr) return;
  pretend(*layer_, GetParam());
  device_ = open();
  ASSERT_EQ(device_->path(), GetParam().path);
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Status::kOk, "");
}

}  // namespace ebb::opencl_test
