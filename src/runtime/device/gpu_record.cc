// GpuRuntime: iterations, and the recording of some. While it records, every launch is waited for: then the time from
// when it was ready to its end, by the host's clock, is that of its kernels.
#include <cstdio>

#include "base/clock.h"
#include "runtime/device/gpu_runtime.h"
#include "trace/writer.h"

namespace ebb {

// How long the program has run since the launch announced last was ready.
void GpuRuntime::tell_time() {
  const std::uint64_t now = monotonic_ns();
  if (last_launch_ns_ != 0 && now > last_launch_ns_) core_.launches().ran(now - last_launch_ns_);
}

void GpuRuntime::step() noexcept {
  if (in_child()) return;
  const Lock lock(mutex_);
  stats_file_.end_step(read_stats().fetched_bytes);
  ++steps_;
  if (recorder_ != nullptr) recorder_->steps_are_told();
  core_.launches().step();
  if (recorder_ != nullptr && recorder_->due()) write_recording();
}

void GpuRuntime::name_op(std::uint64_t op, const std::string& name) {
  const Lock lock(mutex_);
  if (recorder_ != nullptr) recorder_->name_op(op, name);
}

void GpuRuntime::write_recording() noexcept {
  if (!recorder_->has_trace()) return;
  try {
    Trace trace = recorder_->trace();
    trace.origin.device_bytes = options_.device_memory;
    trace.origin.host_bytes = options_.memory;
    write_trace(trace, options_.record);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: the trace cannot be written: %s\n", error.what());
    recorder_ = nullptr;
  }
}

}  // namespace ebb
