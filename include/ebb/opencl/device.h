// OpenCL: a device that runs kernels, written in OpenCL C, on memory of this process.
//
//   auto device = ebb::OpenClDevice::open();
//   auto kernel = device->compile("__kernel void scale(__global const float* x, __global float* y, float by) {"
//                                 "  y[get_global_id(0)] = by * x[get_global_id(0)]; }", "scale");
//   device->launch(*kernel, {n}, {ebb::reads(x, n), ebb::overwrites(y, n), 2.0f});    // x and y: from malloc, mmap …
//
// Any valid pointer is an argument. How its bytes reach the device is chosen by what the device is able to
// (OpenClPath), and checked: what is not mapped, or may not be used as declared, fails the launch before anything ran.
// The driver's library is found at run time: a program that never opens a device needs none. docs/opencl.md.
//
// Threads: every function may be called from any thread. The child of a fork opens a device of its own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "ebb/runtime.h"
#include "ebb/status.h"
#include "ebb/use.h"

namespace ebb {

// How memory of the process reaches a kernel.
enum class OpenClPath : std::uint8_t {
  kAuto,         // the first of these that costs no copy on the device; else the last
  kSystemSvm,    // the kernel works on the pointer itself: fine-grained system SVM of OpenCL 2.0
  kHostPointer,  // a buffer over the memory, CL_MEM_USE_HOST_PTR: no copy where device and host share memory
  kStaged,       // a buffer of the device's own, filled before the kernel and read back after it
};
const char* name(OpenClPath path);  // "auto", "system SVM", "host pointer", "staged"

// What there is, as clGetDeviceInfo has it.
struct OpenClDeviceInfo {
  std::string name, platform, version;
  bool is_cpu = false;
  bool unified_memory = false;  // shares the host's memory
  bool svm_coarse_buffer = false, svm_fine_buffer = false, svm_fine_system = false;
  bool has_f64 = false;
  bool exact_f32 = false;     // rounds to nearest, has denormals, infinities and NaN, as the CPU does
  bool exact_divide = false;  // division and square root of f32 are correctly rounded
  std::uint64_t memory_bytes = 0;
  std::uint64_t buffer_bytes_max = 0;  // of one argument that is not system SVM
  std::uint64_t alignment_bytes = 0;   // that memory of the host needs to be used without a copy
  std::uint32_t compute_units = 0;
  OpenClPath path = OpenClPath::kStaged;  // what kAuto comes to
};

struct OpenClOptions {
  // Its number in opencl_devices(), or a part of its name or of its platform's. Empty: the first that is no CPU, or
  // else the first.
  std::string device{};
  // Another than kAuto is for tests and measurements. kSystemSvm is refused by devices without it.
  OpenClPath path = OpenClPath::kAuto;
  // How long a launch may take. One that does not end is given up, and the device with it.
  std::chrono::milliseconds launch_timeout{600'000};
  std::string library = "libOpenCL.so.1";
};

// All devices of all platforms. Throws Error(kUnsupported) with the remedy where there is no OpenCL, or no device.
std::vector<OpenClDeviceInfo> opencl_devices(const std::string& library = OpenClOptions().library);

// An argument of a kernel: bytes of the process (reads(), writes(), updates(), overwrites() of ebb/use.h) for a
// __global or __constant pointer, or a number that is passed by value and has the type of the parameter.
class OpenClArgument {
 public:
  OpenClArgument(const Use& use) : value_(use) {}  // NOLINT
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) OpenClArgument(T value)
      : value_(Number{{}, sizeof value}) {  // NOLINT
    std::memcpy(std::get<Number>(value_).bytes.data(), &value, sizeof value);
  }

  const Use* use() const { return std::get_if<Use>(&value_); }
  std::span<const std::byte> number() const {
    const auto* const number = std::get_if<Number>(&value_);
    return number != nullptr ? std::span(number->bytes).first(number->size) : std::span<const std::byte>();
  }

 private:
  struct Number {
    std::array<std::byte, 16> bytes;
    std::size_t size;
  };
  std::variant<Use, Number> value_;
};

// Work items in up to three dimensions, and how many make a group; a group of 0 is for the device to choose.
struct OpenClRange {
  std::size_t x = 1, y = 1, z = 1;
  std::size_t group_x = 0, group_y = 0, group_z = 0;
};

// Of one launch, and summed over all. Bytes that an argument declares count once, however they got there.
struct OpenClReport {
  std::uint64_t shared_bytes = 0;      // used where they are
  std::uint64_t copied_in_bytes = 0;   // to the device
  std::uint64_t copied_out_bytes = 0;  // back
};

struct OpenClStats {
  std::uint64_t launches = 0;
  std::uint64_t compiled = 0, reused = 0;  // calls of compile() that made a kernel, and that found it
  OpenClReport bytes;
};

// A compiled kernel. Shared; usable as long as somebody holds it, on the device that compiled it.
class OpenClKernel {
 public:
  virtual ~OpenClKernel() = default;
  virtual const std::string& function() const = 0;
};

class OpenClDevice {
 public:
  // Throws Error(kUnsupported) with the remedy: no OpenCL, no such device, or one that lacks the path asked for.
  static std::shared_ptr<OpenClDevice> open(const OpenClOptions& options = {});
  virtual ~OpenClDevice() = default;

  virtual const OpenClDeviceInfo& info() const = 0;
  virtual OpenClPath path() const = 0;  // that was asked for, or that kAuto came to

  // The __kernel `function` of a program in OpenCL C 1.2. The newest kernels are kept: the same text is compiled once.
  // `options`, of clBuildProgram, come after ours: division and square root correctly rounded where the device can.
  // Throws Error(kInvalid) with what the compiler said.
  virtual std::shared_ptr<OpenClKernel> compile(const std::string& source, const std::string& function,
                                                const std::string& options = "") = 0;

  // Runs the kernel to its end. Every argument is checked first; throws Error(kInvalid) with address, access and
  // mapping for one that is not mapped or not permitted: then nothing has run, and nothing else happened. Memory stays
  // mapped until it returns. Arguments that overlap at different addresses, one of them written, are refused unless the
  // path is system SVM; the same address twice is one memory.
  //
  // `runtime`: whose managed memory may be among the arguments. It is announced, so that it is in memory and stays
  // there while the kernel runs. A device that is no CPU gets copies of what is more than half of that memory.
  //
  // Other errors: kNoMemory (of the device), kCorrupt (flash has lost an argument), kIoError (the device failed, or did
  // not end in time: what the kernel should have written is undefined), kUnsupported (a forked child).
  virtual OpenClReport launch(const OpenClKernel& kernel, const OpenClRange& range,
                              std::span<const OpenClArgument> arguments, Runtime* runtime = nullptr) = 0;
  OpenClReport launch(const OpenClKernel& kernel, const OpenClRange& range,
                      std::initializer_list<OpenClArgument> arguments, Runtime* runtime = nullptr) {
    return launch(kernel, range, std::span<const OpenClArgument>(arguments.begin(), arguments.size()), runtime);
  }

  // False in a forked child, and once a launch did not end in time: the device takes no launches any more.
  virtual bool usable() const = 0;
  virtual OpenClStats stats() const = 0;
  // Name, platform and path in one line.
  virtual std::string description() const = 0;
};

}  // namespace ebb
