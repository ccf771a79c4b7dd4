// See lane_queue.h.
#include "sim/lane_queue.h"

#include <cmath>

#include "base/check.h"

namespace ebb {
namespace {

// Beyond those that programs make.
std::uint64_t version_in_file(const FilePlace& place) { return (std::uint64_t{1} << 63) | place.offset; }

double ns_a_byte(double bytes_per_second) { return bytes_per_second > 0 ? 1e9 / bytes_per_second : 0; }

double busy_ns_a_byte(double alone, double busy) { return ns_a_byte(alone > 0 && busy > 0 ? busy : alone); }

}  // namespace

LaneQueue::LaneQueue(const Machine& machine, std::uint64_t block_bytes, std::uint32_t host_extents, bool clean_copies,
                     FrameVersions& versions, VirtualClock& clock)
    : machine_(machine),
      block_bytes_(block_bytes),
      host_extents_(host_extents),
      clean_copies_(clean_copies),
      versions_(versions),
      clock_(clock),
      link_in_{ns_a_byte(machine.device_link_bps), ns_a_byte(machine.device_link_bps)},
      link_out_{ns_a_byte(machine.device_link_bps), ns_a_byte(machine.device_link_bps)},
      flash_read_{ns_a_byte(machine.flash_read_bps), busy_ns_a_byte(machine.flash_read_bps, machine.busy_read_bps)},
      flash_write_{ns_a_byte(machine.flash_write_bps), busy_ns_a_byte(machine.flash_write_bps, machine.busy_write_bps)},
      flash_both_{ns_a_byte(machine.flash_total_bps), busy_ns_a_byte(machine.flash_total_bps, machine.busy_total_bps)} {
  done_.reserve(kDepth);
}

std::uint64_t LaneQueue::block_ns(const Server& server) const {
  const double ns = busy_ ? server.busy_ns_a_byte : server.ns_a_byte;
  return static_cast<std::uint64_t>(std::llround(ns * static_cast<double>(block_bytes_)));
}

// Takes its turn on a server; when it will be through.
std::uint64_t LaneQueue::pass(Server& server) {
  server.free_ns = std::max(server.free_ns, clock_.now_ns()) + block_ns(server);
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
    if (leaves_without_write(request)) return events_.add(clock_.now_ns(), {request, true, true});
    const std::uint64_t through = pass(link_out_);
    events_.add(host ? through + latency : through, {request, host, false});
  } else {
    const std::uint64_t through = host ? pass(link_in_) : pass_flash(flash_read_);
    events_.add(through + latency, {request, host, false});
  }
  const Server& slowest = host ? link_in_ : request.kind == FlashRequest::Kind::kRead ? flash_read_ : flash_write_;
  count(request, block_ns(slowest));
}

// Unchanged, or to a file, which is not written: what has changed there is to come again, to a place of its own.
bool LaneQueue::leaves_without_write(const FlashRequest& request) const {
  return request.place.valid() ||
         (clean_copies_ && request.has_expected && request.expected.low == versions_.of(request.frame));
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
  const FlashRequest& request = event.request;
  const std::uint64_t below = request.has_expected ? request.expected.low : version_in_file(request.place);
  if (read) versions_.load(request.frame, below);
  completion.digest.low = versions_.of(request.frame);
  completion.unchanged = event.unwritten && completion.digest.low == below;
  completion.homeless = event.unwritten && !completion.unchanged;
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
