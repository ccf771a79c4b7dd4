// See kernel_times.h.
#include "runtime/pace/kernel_times.h"

#include <algorithm>

namespace ebb {

KernelTimes::~KernelTimes() {
  for (const Sample& sample : pending_) drop(sample);
  for (const GpuDevice::Event event : free_) device_.destroy_event(event);
}

KernelTimes::Kind KernelTimes::kind_of(std::uint64_t op, std::uint64_t bytes) {
  return (op ^ (bytes + 0x9e3779b97f4a7c15ull + (op << 6) + (op >> 2)));
}

bool KernelTimes::take(GpuDevice::Event& event) {
  if (free_.empty()) return device_.make_timer(event) == Status::kOk;
  event = free_.back();
  free_.pop_back();
  return true;
}

KernelTimes::Sample KernelTimes::begin(Kind kind, GpuDevice::Stream stream) {
  Sample sample{kind, nullptr, nullptr};
  const std::uint32_t before = kinds_[kind].launches++;
  if ((before >= kAlways && before % kEvery != 0) || pending_.size() >= kPendingMax) return sample;
  GpuDevice::Event from = nullptr;
  GpuDevice::Event to = nullptr;
  if (!take(from)) return sample;
  if (take(to) && device_.record(from, stream) == Status::kOk) return {kind, from, to};
  free_.push_back(from);
  if (to != nullptr) free_.push_back(to);
  return sample;
}

void KernelTimes::end(const Sample& sample, GpuDevice::Stream stream) {
  if (sample.from == nullptr) return;
  if (device_.record(sample.to, stream) == Status::kOk) {
    pending_.push_back(sample);
  } else {
    drop(sample);
  }
}

void KernelTimes::drop(const Sample& sample) {
  if (sample.from == nullptr) return;
  free_.push_back(sample.from);
  free_.push_back(sample.to);
}

void KernelTimes::collect() {
  while (!pending_.empty() && device_.failure().empty()) {
    const Sample sample = pending_.front();
    if (device_.query(sample.to) == Status::kBusy) return;
    std::uint64_t ns = 0;
    const Status status = device_.elapsed(sample.from, sample.to, ns);
    Known& known = kinds_[sample.kind];
    if (status == Status::kOk) known.ns = std::min(known.ns, ns);
    pending_.pop_front();
    drop(sample);
  }
}

void KernelTimes::forget() {
  pending_.clear();
  free_.clear();
}

bool KernelTimes::known(Kind kind, std::uint64_t& ns) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end() || found->second.ns == ~std::uint64_t{0}) return false;
  ns = found->second.ns;
  return true;
}

}  // namespace ebb
