// See opencl_launch.h.
#include "drivers/opencl/opencl_launch.h"

#include <algorithm>
#include <utility>

namespace ebb::opencl {
namespace {

// Managed memory is copied in pieces of so many bytes, each announced by itself: what is copied need not fit into
// memory as a whole.
constexpr std::size_t kPieceBytes = 8 * kMiB;

// Keeps managed memory where it is. While the device may still use it, after a wait that was given up, for ever.
class Announced {
 public:
  Announced(Queue& queue, Runtime* runtime, const Kernel& kernel, std::span<const Access> accesses)
      : queue_(queue), runtime_(accesses.empty() ? nullptr : runtime) {
    if (runtime_ == nullptr) return;
    if (runtime_->recording()) runtime_->name_op(kernel.identity(), "opencl " + kernel.function());
    ticket_ = runtime_->announce(kernel.identity(), accesses);
  }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;
  ~Announced() {
    if (runtime_ != nullptr && !queue_.stuck()) runtime_->retire(ticket_);
  }

 private:
  Queue& queue_;
  Runtime* const runtime_;
  std::uint64_t ticket_ = 0;
};

bool is_staged(const Span& span) { return span.path == OpenClPath::kStaged; }

}  // namespace

Launch::Launch(Queue& queue, const Kernel& kernel, const OpenClRange& range, Spans spans, Runtime* runtime)
    : queue_(queue), kernel_(kernel), range_(range), spans_(std::move(spans)), runtime_(runtime) {}

// No command uses the buffers any more: batches have waited.
Launch::~Launch() {
  for (Span& span : spans_.list) {
    if (is_staged(span) && span.buffer && !queue_.stuck()) queue_.give_back(std::move(span.buffer), span.bytes);
  }
}

void Launch::run(std::span<const OpenClArgument> arguments) {
  for (const Span& span : spans_.list) {
    report_.shared_bytes += is_staged(span) ? 0 : span.bytes;
    report_.copied_in_bytes += is_staged(span) && span.reads ? span.bytes : 0;
    report_.copied_out_bytes += is_staged(span) && span.writes ? span.bytes : 0;
  }
  if (range_.x == 0 || range_.y == 0 || range_.z == 0) {
    report_ = {};
    return;
  }
  for (Span& span : spans_.list) {
    if (!is_staged(span)) continue;
    make_buffer(span);
    if (span.managed && span.reads) copy_managed(span, true);
  }
  std::vector<Access> accesses;
  for (const Span& span : spans_.list) {
    if (span.managed && !is_staged(span)) accesses.push_back(span.access());
  }
  {
    const Announced announced(queue_, runtime_, kernel_, accesses);
    for (Span& span : spans_.list) {
      if (span.path == OpenClPath::kHostPointer) make_buffer(span);  // its content is that of this moment
    }
    Batch batch(queue_);
    run_announced(batch, arguments);
  }
  for (const Span& span : spans_.list) {
    if (span.managed && is_staged(span) && span.writes) copy_managed(span, false);
  }
}

void Launch::run_announced(Batch& batch, std::span<const OpenClArgument> arguments) {
  for (const Span& span : spans_.list) {
    if (is_staged(span) && !span.managed && span.reads) copy(batch, span, true);
  }
  enqueue(batch, arguments);
  for (const Span& span : spans_.list) {
    if (!span.writes || span.path == OpenClPath::kSystemSvm) continue;
    if (span.path == OpenClPath::kHostPointer) {
      show_host(batch, span);
    } else if (!span.managed) {
      copy(batch, span, false);
    }
  }
  batch.wait();
}

void Launch::make_buffer(Span& span) {
  const cl_mem_flags access = span.writes ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
  span.buffer = is_staged(span) ? queue_.staging(span.bytes)
                                : queue_.buffer(access | CL_MEM_USE_HOST_PTR, span.bytes, span.begin);
}

void Launch::copy(Batch& batch, const Span& span, bool in) {
  const Api& api = queue_.api();
  const auto transfer = [&](const char* call, auto function) {
    require(
        function(queue_.get(), span.buffer.get(), CL_FALSE, 0, span.bytes, span.begin, 0, nullptr, batch.next(call)),
        call);
  };
  if (in) {
    transfer("clEnqueueWriteBuffer", api.clEnqueueWriteBuffer);
  } else {
    transfer("clEnqueueReadBuffer", api.clEnqueueReadBuffer);
  }
}

void Launch::copy_managed(const Span& span, bool in) {
  const Api& api = queue_.api();
  for (std::size_t at = 0; at < span.bytes; at += kPieceBytes) {
    Access access = span.access();
    access.data = span.begin + at;
    access.bytes = std::min(kPieceBytes, span.bytes - at);
    access.written = !in;
    access.overwritten = !in;
    const Announced announced(queue_, runtime_, kernel_, {&access, 1});
    Batch batch(queue_);
    if (in) {
      require(api.clEnqueueWriteBuffer(queue_.get(), span.buffer.get(), CL_FALSE, at, access.bytes, span.begin + at, 0,
                                       nullptr, batch.next("clEnqueueWriteBuffer")),
              "clEnqueueWriteBuffer");
    } else {
      require(api.clEnqueueReadBuffer(queue_.get(), span.buffer.get(), CL_FALSE, at, access.bytes, span.begin + at, 0,
                                      nullptr, batch.next("clEnqueueReadBuffer")),
              "clEnqueueReadBuffer");
    }
    batch.wait();
  }
}

void Launch::set_argument(cl_uint index, const OpenClArgument& argument) {
  const Api& api = queue_.api();
  const auto number = argument.number();
  const int place = spans_.of_argument[index];
  cl_int error = CL_SUCCESS;
  if (argument.use() == nullptr) {
    error = api.clSetKernelArg(kernel_.get(), index, number.size(), number.data());
  } else if (place == Spans::kNone) {
    error = api.clSetKernelArg(kernel_.get(), index, sizeof(cl_mem), nullptr);
  } else if (const Span& span = spans_.list[place]; span.path == OpenClPath::kSystemSvm) {
    error = api.clSetKernelArgSVMPointer(kernel_.get(), index, span.begin);
  } else {
    const cl_mem buffer = span.buffer.get();
    error = api.clSetKernelArg(kernel_.get(), index, sizeof buffer, &buffer);
  }
  if (error == CL_SUCCESS) return;
  const std::string size = argument.use() == nullptr ? ", a number of " + std::to_string(number.size()) + " bytes" : "";
  fail(error, "clSetKernelArg",
       " for argument " + std::to_string(index) + size + ", of the kernel '" + kernel_.function() + "'");
}

void Launch::enqueue(Batch& batch, std::span<const OpenClArgument> arguments) {
  const std::size_t items[] = {range_.x, range_.y, range_.z};
  const bool grouped = range_.group_x > 0 || range_.group_y > 0 || range_.group_z > 0;
  const std::size_t group[] = {std::max<std::size_t>(1, range_.group_x), std::max<std::size_t>(1, range_.group_y),
                               std::max<std::size_t>(1, range_.group_z)};
  const cl_uint dimensions = range_.z > 1 ? 3 : range_.y > 1 ? 2 : 1;
  const std::lock_guard lock(kernel_.mutex);
  for (cl_uint i = 0; i < arguments.size(); ++i) set_argument(i, arguments[i]);
  const cl_int error =
      queue_.api().clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), dimensions, nullptr, items,
                                          grouped ? group : nullptr, 0, nullptr, batch.next("clEnqueueNDRangeKernel"));
  if (error != CL_SUCCESS) fail(error, "clEnqueueNDRangeKernel", " for the kernel '" + kernel_.function() + "'");
}

// A device may have worked on a copy of the host's memory: after a map, the host sees what it wrote.
void Launch::show_host(Batch& batch, const Span& span) {
  const Api& api = queue_.api();
  cl_int error = CL_SUCCESS;
  void* const mapped = api.clEnqueueMapBuffer(queue_.get(), span.buffer.get(), CL_FALSE, CL_MAP_READ, 0, span.bytes, 0,
                                              nullptr, batch.next("clEnqueueMapBuffer"), &error);
  require(error, "clEnqueueMapBuffer");
  require(api.clEnqueueUnmapMemObject(queue_.get(), span.buffer.get(), mapped, 0, nullptr,
                                      batch.next("clEnqueueUnmapMemObject")),
          "clEnqueueUnmapMemObject");
}

}  // namespace ebb::opencl
