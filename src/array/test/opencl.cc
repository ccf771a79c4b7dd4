// The few functions of OpenCL 1.2 that a kernel needs, with the types as its specification (Khronos) gives them.
#include "opencl.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace ebb::array_test {
namespace {

using Handle = void*;
constexpr std::uint64_t kDeviceTypeAll = 0xFFFFFFFF;
constexpr std::uint32_t kDeviceName = 0x102B, kSingleFpConfig = 0x101B, kDoubleFpConfig = 0x1032, kBuildLog = 0x1183;
constexpr std::uint64_t kCorrectlyRounded = 1 << 7;
constexpr std::uint64_t kReadWrite = 1, kCopyHost = 1 << 5;

// What is called, by name in the library.
struct Api {
  std::int32_t (*clGetPlatformIDs)(std::uint32_t, Handle*, std::uint32_t*);
  std::int32_t (*clGetDeviceIDs)(Handle, std::uint64_t, std::uint32_t, Handle*, std::uint32_t*);
  std::int32_t (*clGetDeviceInfo)(Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Handle (*clCreateContext)(const std::intptr_t*, std::uint32_t, const Handle*, void*, void*, std::int32_t*);
  Handle (*clCreateCommandQueue)(Handle, Handle, std::uint64_t, std::int32_t*);
  Handle (*clCreateProgramWithSource)(Handle, std::uint32_t, const char**, const std::size_t*, std::int32_t*);
  std::int32_t (*clBuildProgram)(Handle, std::uint32_t, const Handle*, const char*, void*, void*);
  std::int32_t (*clGetProgramBuildInfo)(Handle, Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Handle (*clCreateKernel)(Handle, const char*, std::int32_t*);
  std::int32_t (*clSetKernelArg)(Handle, std::uint32_t, std::size_t, const void*);
  Handle (*clCreateBuffer)(Handle, std::uint64_t, std::size_t, void*, std::int32_t*);
  std::int32_t (*clEnqueueNDRangeKernel)(Handle, Handle, std::uint32_t, const std::size_t*, const std::size_t*,
                                         const std::size_t*, std::uint32_t, const Handle*, Handle*);
  std::int32_t (*clEnqueueReadBuffer)(Handle, Handle, std::uint32_t, std::size_t, std::size_t, void*, std::uint32_t,
                                      const Handle*, Handle*);
  std::int32_t (*clReleaseMemObject)(Handle);
  std::int32_t (*clReleaseKernel)(Handle);
  std::int32_t (*clReleaseProgram)(Handle);
};

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool load(void* library, Api& api) {
  return find(library, "clGetPlatformIDs", api.clGetPlatformIDs) &&
         find(library, "clGetDeviceIDs", api.clGetDeviceIDs) && find(library, "clGetDeviceInfo", api.clGetDeviceInfo) &&
         find(library, "clCreateContext", api.clCreateContext) &&
         find(library, "clCreateCommandQueue", api.clCreateCommandQueue) &&
         find(library, "clCreateProgramWithSource", api.clCreateProgramWithSource) &&
         find(library, "clBuildProgram", api.clBuildProgram) &&
         find(library, "clGetProgramBuildInfo", api.clGetProgramBuildInfo) &&
         find(library, "clCreateKernel", api.clCreateKernel) && find(library, "clSetKernelArg", api.clSetKernelArg) &&
         find(library, "clCreateBuffer", api.clCreateBuffer) &&
         find(library, "clEnqueueNDRangeKernel", api.clEnqueueNDRangeKernel) &&
         find(library, "clEnqueueReadBuffer", api.clEnqueueReadBuffer) &&
         find(library, "clReleaseMemObject", api.clReleaseMemObject) &&
         find(library, "clReleaseKernel", api.clReleaseKernel) &&
         find(library, "clReleaseProgram", api.clReleaseProgram);
}

void require(std::int32_t status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " failed with " + std::to_string(status));
}

class Device final : public OpenClDevice {
 public:
  Device(const Api& api, Handle device) : api_(api), device_(device) {
    std::int32_t status = 0;
    context_ = api_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
    require(status, "clCreateContext");
    queue_ = api_.clCreateCommandQueue(context_, device_, 0, &status);
    require(status, "clCreateCommandQueue");
  }

  std::string device_name() const override {
    char text[256] = {};
    require(api_.clGetDeviceInfo(device_, kDeviceName, sizeof text - 1, text, nullptr), "clGetDeviceInfo");
    return text;
  }
  bool has_f64() const override { return config(kDoubleFpConfig) != 0; }
  bool divides_exactly() const override { return (config(kSingleFpConfig) & kCorrectlyRounded) != 0; }

  std::vector<std::byte> run(const array::KernelSource& source) override {
    const Handle program = build(source.text);
    std::int32_t status = 0;
    const Handle kernel = api_.clCreateKernel(program, "ebb_pass", &status);
    require(status, "clCreateKernel");
    const std::int64_t count = source.result->count;
    std::vector<std::byte> result(static_cast<std::size_t>(count) * size_of(source.result->dtype));
    std::vector<Handle> buffers{buffer(source.layout.data(), source.layout.size() * sizeof(std::int64_t)),
                                buffer(result.data(), result.size())};
    for (const array::NodePtr& node : source.operands) {
      const auto element = static_cast<std::int64_t>(size_of(node->dtype()));
      const array::ShapeInfo& shape = *node->shape;
      buffers.push_back(buffer(node->data() + shape.lowest * element,
                               static_cast<std::size_t>((shape.highest - shape.lowest + 1) * element)));
    }
    require(api_.clSetKernelArg(kernel, 0, sizeof count, &count), "clSetKernelArg");
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      require(api_.clSetKernelArg(kernel, static_cast<std::uint32_t>(k + 1), sizeof(Handle), &buffers[k]),
              "clSetKernelArg");
    }
    const std::size_t group = 64, items = (static_cast<std::size_t>(count) + group - 1) / group * group;
    require(api_.clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &items, &group, 0, nullptr, nullptr),
            "clEnqueueNDRangeKernel");
    require(api_.clEnqueueReadBuffer(queue_, buffers[1], 1, 0, result.size(), result.data(), 0, nullptr, nullptr),
            "clEnqueueReadBuffer");
    for (Handle one : buffers) api_.clReleaseMemObject(one);
    api_.clReleaseKernel(kernel);
    api_.clReleaseProgram(program);
    return result;
  }

 private:
  std::uint64_t config(std::uint32_t what) const {
    std::uint64_t bits = 0;
    return api_.clGetDeviceInfo(device_, what, sizeof bits, &bits, nullptr) == 0 ? bits : 0;
  }

  Handle buffer(const void* data, std::size_t bytes) {
    std::int32_t status = 0;
    const Handle made = api_.clCreateBuffer(context_, kReadWrite | kCopyHost, bytes, const_cast<void*>(data), &status);
    require(status, "clCreateBuffer");
    return made;
  }

  Handle build(const std::string& text) {
    const char* lines = text.c_str();
    std::int32_t status = 0;
    const Handle program = api_.clCreateProgramWithSource(context_, 1, &lines, nullptr, &status);
    require(status, "clCreateProgramWithSource");
    const char* options = divides_exactly() ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
    if (api_.clBuildProgram(program, 1, &device_, options, nullptr, nullptr) != 0) {
      std::string log(16384, '\0');
      api_.clGetProgramBuildInfo(program, device_, kBuildLog, log.size(), log.data(), nullptr);
      throw std::runtime_error("does not compile:\n" + std::string(log.c_str()) + "\n" + text);
    }
    return program;
  }

  const Api api_;
  Handle device_, context_ = nullptr, queue_ = nullptr;
};

}  // namespace

std::unique_ptr<OpenClDevice> OpenClDevice::open(std::string* reason) {
  setenv("POCL_KERNEL_CACHE", "0", 0);  // leave no files behind
  void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  Api api{};
  if (library == nullptr || !load(library, api)) {
    *reason = "no OpenCL: install pocl-opencl-icd (Debian, Ubuntu)";
    return nullptr;
  }
  Handle platforms[8] = {};
  std::uint32_t count = 0;
  if (api.clGetPlatformIDs(8, platforms, &count) != 0) count = 0;
  for (std::uint32_t i = 0; i < count && i < 8; ++i) {
    Handle device = nullptr;
    if (api.clGetDeviceIDs(platforms[i], kDeviceTypeAll, 1, &device, nullptr) == 0 && device != nullptr) {
      return std::make_unique<Device>(api, device);
    }
  }
  *reason = "OpenCL has no device: install pocl-opencl-icd (Debian, Ubuntu)";
  return nullptr;
}

}  // namespace ebb::array_test
