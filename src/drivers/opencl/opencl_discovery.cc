// See opencl_discovery.h.
#include "drivers/opencl/opencl_discovery.h"

#include <algorithm>
#include <cctype>

namespace ebb {
namespace opencl {
namespace {

constexpr cl_uint kPlatformsMax = 16, kDevicesMax = 64;
constexpr cl_int kNoPlatform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR, of the loader

// Of one device. What it does not know, as SVM before OpenCL 2.0, is 0.
class Facts {
 public:
  Facts(const Api& api, cl_device_id device) : api_(api), device_(device) {}

  template <typename T>
  T value(cl_device_info what) const {
    T value{};
    return api_.clGetDeviceInfo(device_, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
  }
  std::string text(cl_device_info what) const {
    std::size_t bytes = 0;
    if (api_.clGetDeviceInfo(device_, what, 0, nullptr, &bytes) != CL_SUCCESS) return "";
    std::string text(bytes, '\0');
    if (api_.clGetDeviceInfo(device_, what, text.size(), text.data(), nullptr) != CL_SUCCESS) return "";
    return text.c_str();
  }

 private:
  const Api& api_;
  cl_device_id device_;
};

std::string platform_name(const Api& api, cl_platform_id platform) {
  char text[256] = {};
  return api.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof text - 1, text, nullptr) == CL_SUCCESS ? text : "";
}

OpenClDeviceInfo describe(const Api& api, cl_platform_id platform, cl_device_id device) {
  const Facts facts(api, device);
  OpenClDeviceInfo info;
  info.name = facts.text(CL_DEVICE_NAME);
  info.platform = platform_name(api, platform);
  info.version = facts.text(CL_DEVICE_VERSION);
  info.is_cpu = (facts.value<cl_device_type>(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  info.unified_memory = facts.value<cl_bool>(CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  const auto svm = facts.value<cl_device_svm_capabilities>(CL_DEVICE_SVM_CAPABILITIES);
  info.svm_coarse_buffer = (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
  info.svm_fine_buffer = (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
  info.svm_fine_system = (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0 && api.clSetKernelArgSVMPointer != nullptr;
  info.has_f64 = facts.value<cl_device_fp_config>(CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  const auto f32 = facts.value<cl_device_fp_config>(CL_DEVICE_SINGLE_FP_CONFIG);
  constexpr cl_device_fp_config kAsTheCpu = CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST;
  info.exact_f32 = (f32 & kAsTheCpu) == kAsTheCpu;
  info.exact_divide = (f32 & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  info.memory_bytes = facts.value<cl_ulong>(CL_DEVICE_GLOBAL_MEM_SIZE);
  info.buffer_bytes_max = facts.value<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  info.alignment_bytes = std::max<std::uint64_t>(1, facts.value<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  info.compute_units = facts.value<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS);
  info.path = info.svm_fine_system  ? OpenClPath::kSystemSvm
              : info.unified_memory ? OpenClPath::kHostPointer
                                    : OpenClPath::kStaged;
  return info;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::vector<Found> discover(const Api& api) {
  cl_platform_id platforms[kPlatformsMax] = {};
  cl_uint platform_count = 0;
  const cl_int error = api.clGetPlatformIDs(kPlatformsMax, platforms, &platform_count);
  if (error != CL_SUCCESS && error != kNoPlatform) fail(error, "clGetPlatformIDs");
  std::vector<Found> found;
  for (cl_uint p = 0; p < std::min(platform_count, kPlatformsMax); ++p) {
    cl_device_id devices[kDevicesMax] = {};
    cl_uint count = 0;
    // A platform without a device says so with an error; a broken one is as good as that.
    if (api.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, kDevicesMax, devices, &count) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < std::min(count, kDevicesMax); ++d) {
      if (Facts(api, devices[d]).value<cl_bool>(CL_DEVICE_COMPILER_AVAILABLE) != CL_TRUE) continue;
      found.push_back({platforms[p], devices[d], describe(api, platforms[p], devices[d])});
    }
  }
  if (found.empty()) {
    throw Error(Status::kUnsupported,
                "OpenCL has no device here: install the driver of your GPU, or pocl-opencl-icd (Debian, Ubuntu) for "
                "the CPU");
  }
  return found;
}

const Found& choose(const std::vector<Found>& found, const std::string& wanted) {
  const auto end = found.end();
  auto chosen = end;
  if (wanted.empty()) {
    chosen = std::find_if(found.begin(), end, [](const Found& one) { return !one.info.is_cpu; });
    return chosen == end ? found.front() : *chosen;
  }
  if (std::all_of(wanted.begin(), wanted.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
    const std::size_t number = wanted.size() < 6 ? std::stoul(wanted) : found.size();
    if (number < found.size()) return found[number];
  }
  chosen = std::find_if(found.begin(), end, [&](const Found& one) {
    return lower(one.info.name + "\n" + one.info.platform).find(lower(wanted)) != std::string::npos;
  });
  if (chosen != end) return *chosen;
  std::string list;
  for (std::size_t i = 0; i < found.size(); ++i) {
    list += (i > 0 ? "; " : "") + std::to_string(i) + ": " + found[i].info.name + " (" + found[i].info.platform + ")";
  }
  throw Error(Status::kUnsupported, "OpenCL has no device '" + wanted + "'; there are " + list);
}

}  // namespace opencl

std::vector<OpenClDeviceInfo> opencl_devices(const std::string& library) {
  const opencl::Api api = opencl::Api::load(library);
  std::vector<OpenClDeviceInfo> infos;
  for (opencl::Found& found : opencl::discover(api)) infos.push_back(std::move(found.info));
  return infos;
}

}  // namespace ebb
