// KernelTimes: how long launches keep the device busy, by its own clock, for plans: the host runs ahead of the device,
// so its clock says nothing. Launches of one operator on as many bytes are one kind; some of each kind are measured,
// between an event before its kernels, behind all that they wait for, and one behind them. The shortest counts: longer
// ones have waited for a host that was not ahead.
//
// Owned by a GpuRuntime, under its lock. Invariant: what is being measured ends in the order in which it began to wait,
// in each stream; events that are not in use are in free_.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "port/gpu_device.h"

namespace ebb {

class KernelTimes {
 public:
  using Kind = std::uint64_t;
  struct Sample {
    Kind kind = 0;
    GpuDevice::Event from = nullptr;  // null: this launch is not measured
    GpuDevice::Event to = nullptr;
  };

  explicit KernelTimes(GpuDevice& device) : device_(device) {}
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  static Kind kind_of(std::uint64_t op, std::uint64_t bytes);
  // Before a launch's kernels are given to the stream, and behind them. A failure of the device only ends measuring.
  Sample begin(Kind kind, GpuDevice::Stream stream);
  void end(const Sample& sample, GpuDevice::Stream stream);
  // Instead of end(): nothing will come of it.
  void drop(const Sample& sample);
  // Looks at what may have ended, without waiting.
  void collect();
  // In a forked child, which has no device: nothing is given back.
  void forget();
  // Nanoseconds; false: none of the kind has ended yet.
  bool known(Kind kind, std::uint64_t& ns) const;

 private:
  static constexpr std::uint32_t kAlways = 4;  // of a kind: so many launches are measured, and then one of kEvery
  static constexpr std::uint32_t kEvery = 64;
  static constexpr std::size_t kPendingMax = 256;

  struct Known {
    std::uint64_t ns = ~std::uint64_t{0};
    std::uint32_t launches = 0;
  };

  bool take(GpuDevice::Event& event);

  GpuDevice& device_;
  std::unordered_map<Kind, Known> kinds_;
  std::deque<Sample> pending_;
  std::vector<GpuDevice::Event> free_;
};

}  // namespace ebb
