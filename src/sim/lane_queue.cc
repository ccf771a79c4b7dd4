// See lane_queue.h.
#include "sim/lane_queue.h"

#include <cmath>

#include "base/check.h"

namespace ebb {
namespace {

double ns_a_byte(double bytes_per_second) { return bytes_per_second > 0 ? 1e9 / bytes_per_second : 0; }

}  // namespace

LaneQueue::LaneQueue(const Machine& machine, std::uint64_t block_bytes, std::uint32_t host_extents, bool clean_copies,
                     FrameVersions& versions, VirtualClock& clock)
    : machine_(machine),
      block_bytes_(block_bytes),
      host_extents_(host_extents),
      clean_copies_(clean_copies),
      versions_(versions),
      clock_(clock),
      link_in_{ns_a_byte(machine.device_link_bps)},
      link_out_{ns_a_byte(machine.device_link_bps)},
      flash_read_{ns_a_byte(machine.flash_read_bps)},
      flash_write_{ns_a_byte(machine.flash_write_bps)},
      flash_both_{ns_a_byte(machine.flash_total_bps)} {
  done_.reserve(kDepth);
}

// Takes its turn on a server; when it will be through.
std::uint64_t LaneQueue::pass(Server& server) {
  const auto ns = static_cast<std::uint64_t>(std::llround(server.ns_a_byte * static_cast<double>(block_bytes_)));
  server.free_ns = std::max(server.free_ns, clock_.now_ns()) + ns;
  return server.free_ns;
}

void LaneQueue::count(const FlashRequest& request, std::uint64_t ns) {
  const Tier below = on_host(request.extent) ? Tier::kHost : Tier::kFlash;
  const Lane lane = request.kind == FlashRequest::Kind::kRead ? lane_in(below) : lane_out(below);
  LaneUse& use = uses_[static_cast<std::size_t>(lane)];
  use.bytes += block_bytes_;
  use.busy_ns += ns;
}

void LaneQueue::begin(const FlashRequest& request) {
  const bool host = on_host(request.extent);
  const std::uint64_t latency = machine_.link_latency_ns + (host ? 0 : machine_.flash_latency_ns);
  if (request.kind == FlashRequest::Kind::kWrite) {
    const bool unchanged = clean_copies_ && request.has_expected && request.expected.low == versions_.of(request.frame);
    if (unchanged) return events_.add(clock_.now_ns(), {request, true, true});
    const std::uint64_t through = pass(link_out_);
    events_.add(host ? through + latency : through, {request, host, false});
  } else {
    const std::uint64_t through = host ? pass(link_in_) : pass_flash(flash_read_);
    events_.add(through + latency, {request, host, false});
  }
  const Server& slowest = host ? link_in_ : request.kind == FlashRequest::Kind::kRead ? flash_read_ : flash_write_;
  count(request, static_cast<std::uint64_t>(slowest.ns_a_byte * static_cast<double>(block_bytes_)));
}

void LaneQueue::submit(std::span<const FlashRequest> requests) {
  for (const FlashRequest& request : requests) begin(request);
}

void LaneQueue::finish_stage(const Event& event) {
  const bool read = event.request.kind == FlashRequest::Kind::kRead;
  if (!event.last) {
    const std::uint64_t through = read ? pass(link_in_) : pass_flash(flash_write_) + machine_.flash_latency_ns;
    events_.add(through, {event.request, true, false});
    return;
  }
  FlashCompletion completion;
  completion.token = event.request.token;
  completion.unchanged = event.unchanged;
  if (read) {
    versions_.load(event.request.frame, event.request.expected.low);
  } else {
    completion.digest.low = versions_.of(event.request.frame);
  }
  done_.push_back(completion);
}

std::size_t LaneQueue::poll(std::span<FlashCompletion> completions) {
  while (!events_.empty() && events_.next_ns() <= clock_.now_ns() && done_.size() < completions.size()) {
    finish_stage(events_.take());
  }
  const std::size_t count = std::min(completions.size(), done_.size());
  std::copy_n(done_.begin(), count, completions.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void LaneQueue::wait(std::chrono::nanoseconds) {
  if (!events_.empty()) clock_.advance_to(events_.next_ns());
}

}  // namespace ebb
