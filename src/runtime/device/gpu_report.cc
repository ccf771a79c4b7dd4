// GpuRuntime: what it says of itself: its counters, and why something cannot be done.
#include <algorithm>

#include "base/clock.h"
#include "ebb/units.h"
#include "runtime/device/gpu_runtime.h"
#include "runtime/tell.h"

namespace ebb {

std::string GpuRuntime::failure() const {
  if (in_child()) return "a forked process cannot use the GPU of its parent";
  const Lock lock(mutex_);
  return device_->failure().empty() ? refused_ : device_->failure();
}

void GpuRuntime::out_of_memory(std::size_t bytes) const {
  const Stats now = read_stats();
  throw Error(Status::kNoMemory,
              "out of memory: " + format_size(bytes) + " asked for, with " + format_size(now.live_bytes) +
                  " of tensors alive, " + format_size(now.budget_bytes) + " of GPU memory, " +
                  format_size(options_.memory) + " of host memory and room for " + format_size(now.flash_limit_bytes) +
                  " on flash in '" + flash_directory_ + "'" + file_limit_in_words() +
                  ". Give it more of one of them (--device-memory, --memory, " + "--flash DIR:SIZE).");
}

void GpuRuntime::out_of_frames(std::size_t blocks) const {
  throw Error(Status::kNoMemory,
              "a launch touches " + format_size(blocks * core_.block_bytes()) + " at once, beside what open launches " +
                  "use, and GPU memory for tensors is " +
                  format_size(core_.budget().frames_limit() * core_.block_bytes()) +
                  "; or nothing can leave it, because host memory and flash are full. Give it more (--device-memory, " +
                  "--memory, --flash DIR:SIZE), or launch less at once.");
}

Stats GpuRuntime::read_stats() const {
  Stats stats;
  core_.fill(stats);
  stats.peak_resident_bytes = std::max(peak_resident_bytes_, stats.resident_bytes);
  stats.stall_ns = stalls_.total_ns(monotonic_ns());
  stats.steps = steps_;
  stats.mappings = frames_.mappings();
  stats.mapping_ns = frames_.mapping_ns();
  stats.device_waits = timelines_->host_waits();
  stats.device_wait_ns = timelines_->host_wait_ns();
  return stats;
}

Stats GpuRuntime::stats() const {
  if (in_child()) return {};
  const Lock lock(mutex_);
  return read_stats();
}

std::vector<double> GpuRuntime::step_seconds() const { return stats_file_.step_seconds(); }

std::string GpuRuntime::policy() const { return std::string(core_.policy().name()); }

std::string GpuRuntime::description() const { return device_->description() + "; " + flash_description_; }

}  // namespace ebb
