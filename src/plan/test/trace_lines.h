// Traces for tests, a tensor and a launch at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/trace.h"

namespace ebb {

using Indices = std::vector<std::uint32_t>;

inline std::uint32_t add_tensor(Trace& trace, std::uint64_t bytes, bool persistent = false) {
  Trace::Tensor tensor;
  tensor.id = static_cast<std::uint32_t>(trace.tensors.size());
  tensor.bytes = bytes;
  tensor.persistent = persistent;
  trace.tensors.push_back(tensor);
  return tensor.id;
}

inline void add_launch(Trace& trace, std::uint64_t ns, const Indices& reads, const Indices& writes) {
  Trace::Launch launch;
  launch.first_use = static_cast<std::uint32_t>(trace.uses.size());
  launch.reads = static_cast<std::uint32_t>(reads.size());
  launch.writes = static_cast<std::uint32_t>(writes.size());
  launch.ns = ns;
  trace.uses.insert(trace.uses.end(), reads.begin(), reads.end());
  trace.uses.insert(trace.uses.end(), writes.begin(), writes.end());
  trace.launches.push_back(launch);
}

}  // namespace ebb
