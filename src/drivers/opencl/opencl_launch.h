// Launch: one run of a kernel over checked spans.
//
// Belongs to one thread. Invariant: while commands use memory of the process, a Batch is alive that waits for them, and
// what of that memory is managed is announced.
#pragma once

#include <span>

#include "drivers/opencl/opencl_kernel.h"
#include "drivers/opencl/opencl_spans.h"
#include "ebb/opencl/device.h"

namespace ebb::opencl {

class Launch {
 public:
  Launch(Queue& queue, const Kernel& kernel, const OpenClRange& range, Spans spans, Runtime* runtime);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();

  void run(std::span<const OpenClArgument> arguments);
  const OpenClReport& report() const { return report_; }

 private:
  void make_buffer(Span& span);
  void copy(Batch& batch, const Span& span, bool in);
  void copy_managed(const Span& span, bool in);
  void enqueue(Batch& batch, std::span<const OpenClArgument> arguments);
  void set_argument(cl_uint index, const OpenClArgument& argument);
  void show_host(Batch& batch, const Span& span);
  void run_announced(Batch& batch, std::span<const OpenClArgument> arguments);

  Queue& queue_;
  const Kernel& kernel_;
  const OpenClRange range_;
  Spans spans_;
  Runtime* const runtime_;
  OpenClReport report_;
};

}  // namespace ebb::opencl
