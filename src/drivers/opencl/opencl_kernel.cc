// See opencl_kernel.h.
#include "drivers/opencl/opencl_kernel.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

namespace ebb::opencl {
namespace {

constexpr std::size_t kLogMax = 16384;

// The alignment of the type that `text`, as "float4*", points to; 1 if it is none of OpenCL C's own.
std::size_t alignment_of(std::string_view text) {
  static constexpr std::pair<std::string_view, std::size_t> kTypes[] = {
      {"char", 1}, {"uchar", 1}, {"short", 2}, {"ushort", 2}, {"half", 2},  {"int", 4},
      {"uint", 4}, {"float", 4}, {"long", 8},  {"ulong", 8},  {"double", 8}};
  const std::size_t end = text.find_first_of(" *");
  if (end == std::string_view::npos) return 1;
  text = text.substr(0, end);
  const std::size_t digits = text.find_first_of("0123456789");
  const std::string_view type = text.substr(0, digits);
  std::size_t width = 1;
  if (digits != std::string_view::npos) {
    width = 0;
    for (char digit : text.substr(digits, 2)) width = width * 10 + static_cast<std::size_t>(digit - '0');
    if (width == 3) width = 4;
  }
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [type](const auto& known) { return known.first == type; });
  if (found == std::end(kTypes) || (width != 1 && width != 2 && width != 4 && width != 8 && width != 16)) return 1;
  return found->second * width;
}

}  // namespace

Kernel::Kernel(std::shared_ptr<Queue> queue, const std::string& source, std::string function,
               const std::string& options)
    : queue_(std::move(queue)),
      function_(std::move(function)),
      identity_(std::hash<std::string>{}(source)*31 + std::hash<std::string>{}(function_)) {
  const Api& api = queue_->api();
  const char* const lines = source.c_str();
  const std::size_t length = source.size();
  cl_int error = CL_SUCCESS;
  program_ = {api.clCreateProgramWithSource(queue_->context(), 1, const_cast<const char**>(&lines), &length, &error),
              api.clReleaseProgram};
  require(error, "clCreateProgramWithSource");
  build(source, options);
  kernel_ = {api.clCreateKernel(program_.get(), function_.c_str(), &error), api.clReleaseKernel};
  if (error == CL_INVALID_KERNEL_NAME) {
    throw Error(Status::kInvalid, "OpenCL: the program has no __kernel function '" + function_ + "'");
  }
  require(error, "clCreateKernel");
  read_parameters();
}

void Kernel::build(const std::string& source, const std::string& options) {
  const Api& api = queue_->api();
  const cl_device_id device = queue_->found().device;
  std::string all = "-cl-std=CL1.2 -cl-kernel-arg-info";
  if (queue_->found().info.exact_divide) all += " -cl-fp32-correctly-rounded-divide-sqrt";
  if (!options.empty()) all += " " + options;
  const cl_int error = api.clBuildProgram(program_.get(), 1, &device, all.c_str(), nullptr, nullptr);
  if (error == CL_SUCCESS) return;
  if (source.find_first_not_of(" \t\n") == std::string::npos) {
    throw Error(Status::kInvalid, "OpenCL: the source of the kernel '" + function_ + "' is empty");
  }
  std::string log(kLogMax, '\0');
  std::size_t bytes = 0;
  if (api.clGetProgramBuildInfo(program_.get(), device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) == CL_SUCCESS) {
    log.assign(bytes + 1, '\0');
    api.clGetProgramBuildInfo(program_.get(), device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  }
  log.resize(std::min(log.find('\0'), kLogMax));
  fail(error, "clBuildProgram", " for the kernel '" + function_ + "', compiled with " + all + "\n" + log);
}

void Kernel::read_parameters() {
  const Api& api = queue_->api();
  cl_uint count = 0;
  require(api.clGetKernelInfo(kernel_.get(), CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr), "clGetKernelInfo");
  parameters_.resize(count);
  for (cl_uint i = 0; i < count; ++i) {
    cl_kernel_arg_address_qualifier space = 0;
    if (api.clGetKernelArgInfo(kernel_.get(), i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, nullptr) !=
        CL_SUCCESS) {
      continue;  // a device may not have kept it
    }
    const bool is_memory = space == CL_KERNEL_ARG_ADDRESS_GLOBAL || space == CL_KERNEL_ARG_ADDRESS_CONSTANT;
    parameters_[i].kind = is_memory                                ? Parameter::Kind::kMemory
                          : space == CL_KERNEL_ARG_ADDRESS_LOCAL   ? Parameter::Kind::kLocal
                          : space == CL_KERNEL_ARG_ADDRESS_PRIVATE ? Parameter::Kind::kNumber
                                                                   : Parameter::Kind::kUnknown;
    char type[128] = {};
    if (is_memory && api.clGetKernelArgInfo(kernel_.get(), i, CL_KERNEL_ARG_TYPE_NAME, sizeof type - 1, type,
                                            nullptr) == CL_SUCCESS) {
      parameters_[i].alignment = alignment_of(type);
    }
  }
}

std::shared_ptr<Kernel> KernelCache::get(const std::shared_ptr<Queue>& queue, const std::string& source,
                                         const std::string& function, const std::string& options) {
  std::string key = options + '\0' + function + '\0' + source;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) {
      ++reused_;
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
  }
  // Without the lock: it takes a compiler's time. Two threads may make the same; the first stays.
  auto made = std::make_shared<Kernel>(queue, source, function, options);
  const std::lock_guard lock(mutex_);
  ++compiled_;
  if (const auto found = index_.find(key); found != index_.end()) return found->second->second;
  entries_.emplace_front(key, made);
  index_.emplace(std::move(key), entries_.begin());
  if (entries_.size() > kKernelsMax) {
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return made;
}

std::uint64_t KernelCache::compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

std::uint64_t KernelCache::reused() const {
  const std::lock_guard lock(mutex_);
  return reused_;
}

}  // namespace ebb::opencl
