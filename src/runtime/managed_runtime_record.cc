// ManagedRuntime: writing what is recorded.
#include <cstdio>
#include <exception>

#include "plan/machine.h"
#include "runtime/managed_runtime.h"
#include "trace/writer.h"

namespace ebb {

void ManagedRuntime::name_op(std::uint64_t op, const std::string& name) {
  const Lock lock(mutex_);
  ledger_.name_op(op, name);
  if (recorder_ != nullptr) recorder_->name_op(op, name);
}

void ManagedRuntime::write_recording() noexcept {
  if (!recorder_->has_trace()) return;
  try {
    Trace trace = recorder_->trace();
    trace.origin = origin();
    write_trace(trace, options_.record);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: the trace cannot be written: %s\n", error.what());
    recorder_ = nullptr;
  }
}

// The machine as this run has found it.
Trace::Origin ManagedRuntime::origin() const {
  Trace::Origin origin;
  origin.device_bytes = read_stats().budget_bytes;
  origin.host_bytes = 0;
  origin.device_link_bps = static_cast<std::uint64_t>(kMemoryBps);
  const auto rate = [this](double block_ns) {
    const double bps = 1e9 * static_cast<double>(options_.block_bytes) / block_ns;
    return block_ns > 0 ? static_cast<std::uint64_t>(bps) : Trace::kUnknown;
  };
  const double in_ns = flash_pace_.in_ns();
  origin.flash_read_bps = rate(in_ns);
  origin.flash_write_bps = rate(flash_pace_.out_ns() > 0 ? flash_pace_.out_ns() : in_ns);
  origin.flash_total_bps = rate(flash_pace_.both_ns());
  return origin;
}

}  // namespace ebb
