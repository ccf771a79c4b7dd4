// Kernel: a compiled function with what is known of its parameters, and the cache of compiled ones.
//
// A Kernel is shared by the cache and its users; it holds the queue of its device. Its arguments are OpenCL's state:
// who sets them and enqueues it holds `mutex`.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "drivers/opencl/opencl_queue.h"
#include "ebb/opencl/device.h"

namespace ebb::opencl {

struct Parameter {
  enum class Kind : std::uint8_t { kUnknown, kMemory, kLocal, kNumber } kind = Kind::kUnknown;
  std::size_t alignment = 1;  // of what a pointer points to; 1: not known
};

class Kernel final : public OpenClKernel {
 public:
  // Throws Error(kInvalid) with what the compiler said.
  Kernel(std::shared_ptr<Queue> queue, const std::string& source, std::string function, const std::string& options);

  const std::string& function() const override { return function_; }
  const Queue& queue() const { return *queue_; }
  cl_kernel get() const { return kernel_.get(); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // The same for the same text: how a Runtime recognizes its launches.
  std::uint64_t identity() const { return identity_; }

  mutable std::mutex mutex;

 private:
  void build(const std::string& source, const std::string& options);
  void read_parameters();

  const std::shared_ptr<Queue> queue_;
  const std::string function_;
  std::uint64_t identity_ = 0;
  Handle<cl_program> program_;
  Handle<cl_kernel> kernel_;
  std::vector<Parameter> parameters_;
};

class KernelCache {
 public:
  static constexpr std::size_t kKernelsMax = 256;

  std::shared_ptr<Kernel> get(const std::shared_ptr<Queue>& queue, const std::string& source,
                              const std::string& function, const std::string& options);
  std::uint64_t compiled() const;
  std::uint64_t reused() const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<Kernel>>;

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // used most recently first
  std::map<std::string, std::list<Entry>::iterator> index_;
  std::uint64_t compiled_ = 0, reused_ = 0;
};

}  // namespace ebb::opencl
