// GpuRuntime: iterations, and the recording of some. While it records, every launch is waited for, so that the next one
// finds how long it took.
#include <cstdio>

#include "base/clock.h"
#include "runtime/device/gpu_runtime.h"
#include "trace/writer.h"

namespace ebb {

// How long the launch announced last keeps the device busy, as others of its kind have; or, before one of them has
// ended, how long the host has taken since.
void GpuRuntime::tell_time() {
  if (last_launch_ns_ == 0) return;
  times_.collect();
  std::uint64_t ns = 0;
  if (!times_.known(last_kind_, ns)) ns = monotonic_ns() - last_launch_ns_;
  core_.launches().ran(ns);
  last_launch_ns_ = 0;
}

void GpuRuntime::step() noexcept {
  if (in_child()) return;
  const Lock lock(mutex_);
  stats_file_.end_step(read_stats().fetched_bytes);
  ++steps_;
  tell_time();
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
