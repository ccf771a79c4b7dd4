// See summary.h.
#include "trace/summary.h"

#include <algorithm>
#include <vector>

#include "plan/vitality.h"

namespace ebb {

Summary summarize(const Trace& trace) {
  Summary summary;
  for (const Trace::Tensor& tensor : trace.tensors) {
    const auto add = [&](Summary::Kind& kind) {
      ++kind.tensors;
      kind.bytes += tensor.bytes;
    };
    add(summary.kinds[static_cast<std::size_t>(tensor.kind)]);
    add(summary.all);
    if (tensor.persistent) add(summary.persistent);
  }
  const Vitality vitality = analyse(trace);
  summary.total_ns = vitality.ideal_ns();
  summary.timed_launches = trace.launches.size() - vitality.unknown_durations;
  summary.peak_bytes = vitality.peak_live_bytes;
  summary.peak_launch = vitality.peak_live_launch;
  return summary;
}

}  // namespace ebb
