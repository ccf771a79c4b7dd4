// See ring.h.
#include "sim/ring.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ebb {
namespace {

using LaunchIndex = Trace::LaunchIndex;
using TensorIndex = Trace::TensorIndex;

bool contains(std::span<const TensorIndex> tensors, TensorIndex wanted) {
  return std::find(tensors.begin(), tensors.end(), wanted) != tensors.end();
}

// By tensor, the launch with which it is complete as the gradient of a parameter; kNone for what is none.
std::vector<LaunchIndex> completions(const Trace& trace) {
  std::vector<LaunchIndex> complete(trace.tensors.size(), Trace::kNone);
  std::vector<bool> read(trace.tensors.size());
  std::vector<bool> updates(trace.tensors.size());
  for (LaunchIndex i = 0; i < trace.launches.size(); ++i) {
    const Trace::Launch& launch = trace.launches[i];
    const auto writes = trace.writes(launch);
    const bool update = std::any_of(writes.begin(), writes.end(), [&](TensorIndex each) {
      const Trace::Kind kind = trace.tensors[each].kind;
      return kind == Trace::Kind::kWeight || kind == Trace::Kind::kOptimizer;
    });
    for (const TensorIndex tensor : trace.reads(launch)) {
      if (complete[tensor] == Trace::kNone || contains(writes, tensor)) continue;
      read[tensor] = true;
      updates[tensor] = updates[tensor] || update;
    }
    for (const TensorIndex tensor : writes) {
      if (trace.tensors[tensor].kind == Trace::Kind::kGradient && !read[tensor]) complete[tensor] = i;
    }
  }
  for (std::size_t i = 0; i < complete.size(); ++i) {
    if (!updates[i]) complete[i] = Trace::kNone;
  }
  return complete;
}

// The network while one goes through the launches in order.
class Network {
 public:
  Network(const Ring& ring, RingTrace& result) : ring_(ring), result_(result) {}

  void add(std::uint64_t bytes, std::uint64_t now_ns) {
    bytes_ += bytes;
    result_.gradient_bytes += bytes;
    if (bytes_ >= ring_.bucket_bytes) send(now_ns);
  }
  void send(std::uint64_t now_ns) {
    if (bytes_ == 0) return;
    const std::uint64_t ns = ring_.all_reduce_ns(bytes_);
    free_ns_ = std::max(free_ns_, now_ns) + ns;
    result_.network_ns += ns;
    ++result_.reductions;
    bytes_ = 0;
    ends_.push_back(free_ns_);
  }
  // The bucket that is being filled, and when one has been summed up; 0: it has not been sent yet.
  std::size_t bucket() const { return ends_.size(); }
  std::uint64_t end_ns(std::size_t bucket) const { return bucket < ends_.size() ? ends_[bucket] : 0; }

 private:
  const Ring& ring_;
  RingTrace& result_;
  std::uint64_t bytes_ = 0;
  std::uint64_t free_ns_ = 0;
  std::vector<std::uint64_t> ends_;
};

// Launches by their old number, where some were put before.
class Shift {
 public:
  void put_before(LaunchIndex launch) { before_.push_back(launch); }
  LaunchIndex of(LaunchIndex launch) const {
    if (launch == Trace::kNone) return launch;
    const auto count = std::upper_bound(before_.begin(), before_.end(), launch) - before_.begin();
    return launch + static_cast<LaunchIndex>(count);
  }

 private:
  std::vector<LaunchIndex> before_;  // ascending
};

}  // namespace

std::uint64_t Ring::all_reduce_ns(std::uint64_t bytes) const {
  if (ranks < 2) return 0;
  const double messages = 2.0 * (ranks - 1);
  const double seconds = messages * static_cast<double>(bytes) / ranks / bps;
  return static_cast<std::uint64_t>(std::llround(1e9 * seconds + messages * static_cast<double>(latency_ns)));
}

RingTrace with_all_reduces(const Trace& trace, const Ring& ring) {
  RingTrace result;
  result.trace = trace;
  if (ring.ranks < 2) return result;
  constexpr std::size_t kNotSent = ~std::size_t{0};
  const std::vector<LaunchIndex> complete = completions(trace);
  std::vector<std::size_t> bucket_of(trace.tensors.size(), kNotSent);
  Network network(ring, result);
  Shift shift;
  std::vector<Trace::Launch> launches;
  const auto op = static_cast<std::uint32_t>(trace.ops.size());
  std::uint64_t now_ns = 0;
  for (LaunchIndex i = 0; i < trace.launches.size(); ++i) {
    const Trace::Launch& launch = trace.launches[i];
    std::uint64_t until_ns = now_ns;
    for (const TensorIndex tensor : trace.reads(launch)) {
      const std::size_t bucket = bucket_of[tensor];
      if (bucket == kNotSent) continue;
      if (bucket == network.bucket()) network.send(now_ns);
      until_ns = std::max(until_ns, network.end_ns(bucket));
    }
    if (until_ns > now_ns) {
      launches.push_back({op, launch.first_use, 0, 0, until_ns - now_ns});
      shift.put_before(i);
      result.waited_ns += until_ns - now_ns;
      now_ns = until_ns;
    }
    launches.push_back(launch);
    now_ns += launch.ns;
    for (const TensorIndex tensor : trace.writes(launch)) {
      if (complete[tensor] != i || bucket_of[tensor] != kNotSent) continue;
      bucket_of[tensor] = network.bucket();
      network.add(trace.tensors[tensor].bytes, now_ns);
    }
  }
  result.trace.ops.emplace_back("all_reduce");
  result.trace.launches = std::move(launches);
  for (Trace::Tensor& tensor : result.trace.tensors) {
    tensor.allocated_before = shift.of(tensor.allocated_before);
    tensor.freed_before = shift.of(tensor.freed_before);
  }
  for (LaunchIndex& step : result.trace.steps) step = shift.of(step);
  return result;
}

}  // namespace ebb
