// See opencl_device.h.
#include "drivers/opencl/opencl_device.h"

#include <utility>

#include "drivers/opencl/opencl_launch.h"

namespace ebb {
namespace opencl {

ClDevice::ClDevice(const OpenClOptions& options) {
  if (options.launch_timeout.count() <= 0) {
    throw Error(Status::kInvalid, "OpenClOptions::launch_timeout: give more than 0 ms");
  }
  const Api api = Api::load(options.library);
  const Found found = choose(discover(api), options.device);
  path_ = options.path == OpenClPath::kAuto ? found.info.path : options.path;
  if (path_ == OpenClPath::kSystemSvm && !found.info.svm_fine_system) {
    throw Error(Status::kUnsupported,
                "OpenCL: '" + found.info.name + "' has no fine-grained system SVM; leave the path to the device");
  }
  if (ProcessMap::open(map_) != Status::kOk) {
    throw Error(Status::kUnsupported, "OpenCL: without /proc, memory cannot be checked before a launch; mount it");
  }
  queue_ = std::make_shared<Queue>(api, found, options.launch_timeout);
}

std::shared_ptr<OpenClKernel> ClDevice::compile(const std::string& source, const std::string& function,
                                                const std::string& options) {
  queue_->check_usable();
  return kernels_.get(queue_, source, function, options);
}

OpenClReport ClDevice::launch(const OpenClKernel& kernel, const OpenClRange& range,
                              std::span<const OpenClArgument> arguments, Runtime* runtime) {
  queue_->check_usable();
  const auto* const compiled = dynamic_cast<const Kernel*>(&kernel);
  if (compiled == nullptr || &compiled->queue() != queue_.get()) {
    throw Error(Status::kInvalid, "OpenCL: the kernel '" + kernel.function() + "' was compiled by another device");
  }
  Launch launch(*queue_, *compiled, range, spans_of({*compiled, info(), path_, runtime}, map_, arguments), runtime);
  launch.run(arguments);
  const OpenClReport& report = launch.report();
  launches_.fetch_add(1);
  shared_.fetch_add(report.shared_bytes);
  copied_in_.fetch_add(report.copied_in_bytes);
  copied_out_.fetch_add(report.copied_out_bytes);
  return report;
}

OpenClStats ClDevice::stats() const {
  OpenClStats stats;
  stats.launches = launches_.load();
  stats.compiled = kernels_.compiled();
  stats.reused = kernels_.reused();
  stats.bytes = {shared_.load(), copied_in_.load(), copied_out_.load()};
  return stats;
}

std::string ClDevice::description() const {
  return "OpenCL: " + info().name + " (" + info().platform + "), " + name(path_);
}

}  // namespace opencl

const char* name(OpenClPath path) {
  switch (path) {
    case OpenClPath::kAuto: return "auto";
    case OpenClPath::kSystemSvm: return "system SVM";
    case OpenClPath::kHostPointer: return "host pointer";
    case OpenClPath::kStaged: return "staged";
  }
  return "";
}

std::shared_ptr<OpenClDevice> OpenClDevice::open(const OpenClOptions& options) {
  return std::make_shared<opencl::ClDevice>(options);
}

}  // namespace ebb
