// A kernel over malloc'ed memory on an OpenCL device, in numbers: through ebb::OpenClDevice, on every way that the
// device has, beside what a program does by hand (clEnqueueWriteBuffer, kernel, clEnqueueReadBuffer, on buffers that
// are made once) and beside the kernel alone on buffers that are there already. Contenders take turns; medians of
// rounds.
//
//   build/release/bench/bench_opencl [--mib 64] [--rounds 9] [--device NAME]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "drivers/opencl/opencl_handle.h"
#include "drivers/opencl/opencl_queue.h"
#include "ebb/opencl/device.h"

namespace {

using ebb::opencl::require;

constexpr const char* kSource = R"(
__kernel void axpy(float by, __global const float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = by * x[i] + y[i];
}
__kernel void root(float by, __global const float* x, __global float* y) {
  const size_t i = get_global_id(0);
  float value = x[i];
  for (int k = 0; k < 32; ++k) value = sqrt(value * value + by);
  y[i] += value;
}
)";
constexpr std::size_t kGroup = 64;
constexpr float kBy = 0.5f;

// What a program does by hand.
class ByHand {
 public:
  ByHand(const ebb::OpenClOptions& options, const char* function, std::size_t bytes)
      : api_(ebb::opencl::Api::load(options.library)),
        queue_(api_, ebb::opencl::choose(ebb::opencl::discover(api_), options.device), options.launch_timeout),
        bytes_(bytes),
        x_(queue_.buffer(CL_MEM_READ_ONLY, bytes, nullptr)),
        y_(queue_.buffer(CL_MEM_READ_WRITE, bytes, nullptr)) {
    cl_int error = CL_SUCCESS;
    const char* text = kSource;
    program_ = {api_.clCreateProgramWithSource(queue_.context(), 1, &text, nullptr, &error), api_.clReleaseProgram};
    require(error, "clCreateProgramWithSource");
    const bool exact = queue_.found().info.exact_divide;  // as OpenClDevice has it compiled
    const char* const flags = exact ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
    require(api_.clBuildProgram(program_.get(), 0, nullptr, flags, nullptr, nullptr), "clBuildProgram");
    kernel_ = {api_.clCreateKernel(program_.get(), function, &error), api_.clReleaseKernel};
    require(error, "clCreateKernel");
    const cl_mem x = x_.get(), y = y_.get();
    require(api_.clSetKernelArg(kernel_.get(), 0, sizeof kBy, &kBy), "clSetKernelArg");
    require(api_.clSetKernelArg(kernel_.get(), 1, sizeof x, &x), "clSetKernelArg");
    require(api_.clSetKernelArg(kernel_.get(), 2, sizeof y, &y), "clSetKernelArg");
  }

  void copy_in(const float* x, const float* y) {
    require(api_.clEnqueueWriteBuffer(queue_.get(), x_.get(), CL_FALSE, 0, bytes_, x, 0, nullptr, nullptr), "write");
    require(api_.clEnqueueWriteBuffer(queue_.get(), y_.get(), CL_FALSE, 0, bytes_, y, 0, nullptr, nullptr), "write");
  }
  void run() {
    const std::size_t items = bytes_ / sizeof(float);
    ebb::opencl::Batch batch(queue_);
    require(api_.clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), 1, nullptr, &items, &kGroup, 0, nullptr,
                                        batch.next("kernel")),
            "kernel");
    batch.wait();
  }
  void copied(const float* x, float* y) {
    copy_in(x, y);
    const std::size_t items = bytes_ / sizeof(float);
    require(api_.clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), 1, nullptr, &items, &kGroup, 0, nullptr, nullptr),
            "kernel");
    require(api_.clEnqueueReadBuffer(queue_.get(), y_.get(), CL_TRUE, 0, bytes_, y, 0, nullptr, nullptr), "read");
  }

 private:
  const ebb::opencl::Api api_;
  ebb::opencl::Queue queue_;
  const std::size_t bytes_;
  ebb::opencl::Handle<cl_mem> x_, y_;
  ebb::opencl::Handle<cl_program> program_;
  ebb::opencl::Handle<cl_kernel> kernel_;
};

struct Arguments {
  std::size_t mib = 64, rounds = 9;
  std::string device;
};

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> ms;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// False if the ways do not compute the same.
bool measure(const Arguments& arguments, const char* function, const char* title) {
  const std::size_t count = (arguments.mib << 20) / sizeof(float);
  auto* const x = static_cast<float*>(std::malloc(count * sizeof(float)));
  auto* const y = static_cast<float*>(std::malloc(count * sizeof(float)));
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 1000);
  ByHand by_hand({.device = arguments.device}, function, count * sizeof(float));
  std::vector<Contender> contenders;
  contenders.push_back({"explicit copies", [&] { by_hand.copied(x, y); }, {}});
  std::vector<std::shared_ptr<ebb::OpenClDevice>> devices;
  for (const ebb::OpenClPath path :
       {ebb::OpenClPath::kSystemSvm, ebb::OpenClPath::kHostPointer, ebb::OpenClPath::kStaged}) {
    std::shared_ptr<ebb::OpenClDevice> device;
    try {
      device = ebb::OpenClDevice::open({.device = arguments.device, .path = path});
    } catch (const ebb::Error& error) {
      if (error.status() != ebb::Status::kUnsupported) throw;
      continue;  // not on this device
    }
    const auto kernel = device->compile(kSource, function);
    const bool chosen = device->info().path == path;
    contenders.push_back({std::string("ebb, ") + ebb::name(path) + (chosen ? " (its choice)" : ""),
                          [=] {
                            device->launch(*kernel, {.x = count, .group_x = kGroup},
                                           {kBy, ebb::reads(x, count), ebb::updates(y, count)});
                          },
                          {}});
  }
  contenders.push_back({"kernel alone", [&] { by_hand.run(); }, {}});
  bool same = true;
  std::vector<float> want;
  for (std::size_t round = 0; round <= arguments.rounds; ++round) {
    for (Contender& contender : contenders) {
      std::fill_n(y, count, 1.0f);
      const std::uint64_t begin = ebb::monotonic_ns();
      contender.run();
      if (round > 0) contender.ms.push_back(static_cast<double>(ebb::monotonic_ns() - begin) * 1e-6);
      if (contender.name == "kernel alone") continue;
      if (want.empty()) want.assign(y, y + count);
      same = same && std::equal(want.begin(), want.end(), y);
    }
  }
  std::printf("| %s | median ms | least | most | of explicit copies |\n|---|---|---|---|---|\n", title);
  const double copies = median(contenders.front().ms);
  for (const Contender& contender : contenders) {
    const auto [least, most] = std::minmax_element(contender.ms.begin(), contender.ms.end());
    std::printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", contender.name.c_str(), median(contender.ms), *least, *most,
                median(contender.ms) / copies);
  }
  std::printf("\n");
  std::free(x);
  std::free(y);
  return same;
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; i += 2) {
    const char* const value = i + 1 < count ? words[i + 1] : "";
    if (std::strcmp(words[i], "--mib") == 0) {
      arguments.mib = std::strtoull(value, nullptr, 10);
    } else if (std::strcmp(words[i], "--rounds") == 0) {
      arguments.rounds = std::strtoull(value, nullptr, 10);
    } else if (std::strcmp(words[i], "--device") == 0 && *value != '\0') {
      arguments.device = value;
    } else {
      std::fprintf(stderr, "bench_opencl: '%s' is not --mib N, --rounds N or --device NAME\n", words[i]);
      return 2;
    }
  }
  if (arguments.mib < 1 || arguments.mib > 4096 || arguments.rounds < 1 || arguments.rounds > 10000) {
    std::fprintf(stderr, "bench_opencl: --mib is a number from 1 to 4096, --rounds one from 1 to 10000\n");
    return 2;
  }
  try {
    const auto device = ebb::OpenClDevice::open({.device = arguments.device});
    std::printf("%s; two arrays of %zu MiB from malloc, %zu rounds\n\n", device->description().c_str(), arguments.mib,
                arguments.rounds);
    bool same = measure(arguments, "axpy", "y = a x + y");
    same = measure(arguments, "root", "32 square roots") && same;
    if (same) return 0;
    std::fprintf(stderr, "bench_opencl: the ways do not compute the same\n");
    return 1;
  } catch (const ebb::Error& error) {
    std::fprintf(stderr, "bench_opencl: %s\n", error.what());
    return error.status() == ebb::Status::kUnsupported ? 77 : 1;
  }
}
