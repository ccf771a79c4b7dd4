// See sim_flash.h.
#include "sim/sim_flash.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {
namespace {

// The engine tries a transfer three times: a fault that passes must have passed by then.
constexpr std::uint32_t kPassingFaultsMax = 2;

}  // namespace

SimFlash::SimFlash(const Config& config, const FaultPlan& plan, NthFault& nth, SimMemory& memory, VirtualClock& clock,
                   EventLog& log)
    : config_(config), plan_(plan), nth_(nth), memory_(memory), clock_(clock), log_(log), rng_(config.seed) {}

SimFlash::~SimFlash() {
  while (!pending_.empty()) memory_.end_transfer(pending_.take().request.bytes);
}

void SimFlash::fill_from_file(const FilePlace& place, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint64_t at = place.offset + i;
    Rng rng((static_cast<std::uint64_t>(place.file) << 40) ^ (at / sizeof(std::uint64_t)));
    bytes[i] = static_cast<std::byte>(rng.next() >> (at % sizeof(std::uint64_t) * 8));
  }
}

SimFlash::Stored& SimFlash::stored(const RawRequest& request) {
  EBB_CHECK_EQ(request.offset % config_.block_bytes, 0u);
  if (request.file != FilePlace::kNoFile) {
    EBB_CHECK(!request.write);
    Stored& place = files_[{request.file, request.offset}];
    if (!place.written) {
      place.written = true;
      place.bytes.resize(config_.block_bytes);
      fill_from_file({request.file, request.offset, 0}, place.bytes);
    }
    return place;
  }
  const std::uint64_t extent = request.offset / config_.block_bytes;
  EBB_CHECK_LT(extent, extents_.size());
  return extents_[extent];
}

bool SimFlash::damaged(std::uint32_t extent) const {
  return extents_.at(extent).unreadable || extents_.at(extent).corrupt;
}

bool SimFlash::damaged(const FilePlace& place) const {
  const auto found = files_.find({place.file, place.offset});
  return found != files_.end() && found->second.unreadable;
}

void SimFlash::scribble(std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng_.next());
}

void SimFlash::submit(const RawRequest& request) {
  EBB_CHECK_LT(pending_.size(), config_.depth);
  EBB_CHECK(request.bytes.size() == config_.block_bytes || request.file != FilePlace::kNoFile);
  memory_.begin_transfer(request.bytes);
  Stored& place = stored(request);
  // Two transfers of one extent, one of them a write, have no order: nobody could say what comes out.
  EBB_CHECK(!place.writer);
  if (request.write) EBB_CHECK_EQ(place.readers, 0u);
  Pending pending{request, Status::kOk, false, {}};
  if (request.write) {
    place.writer = true;
    ++counters_.writes;
    pending.copy.assign(request.bytes.begin(), request.bytes.end());
    draw_write(place, pending);
  } else {
    EBB_CHECK(place.written);
    ++place.readers;
    ++counters_.reads;
    draw_read(place, pending);
    scribble(request.bytes.first(std::min<std::size_t>(request.bytes.size(), 64)));
  }
  std::uint64_t& lane_free_ns = request.write ? write_lane_free_ns_ : read_lane_free_ns_;
  lane_free_ns = std::max(lane_free_ns, clock_.now_ns()) +
                 (request.write ? config_.write_ns_per_block : config_.read_ns_per_block);
  const std::uint64_t due_ns = lane_free_ns + config_.latency_ns + rng_.below(config_.jitter_ns + 1);
  log_.note(EventLog::Kind::kSubmit, request.write, request.token, request.offset, due_ns);
  pending_.add(due_ns, std::move(pending));
}

void SimFlash::draw_read(Stored& place, Pending& pending) {
  const bool nth = nth_.fires();
  if (plan_.read_error_forever.fires(rng_)) place.unreadable = true;
  const bool error = plan_.read_error.fires(rng_);
  // What a file has at its first reading is what it has.
  const bool corrupt = pending.request.file == FilePlace::kNoFile && plan_.corrupt_read.fires(rng_);
  if (place.unreadable) {
    pending.status = Status::kIoError;
  } else if ((nth || error || corrupt) && place.failures < kPassingFaultsMax) {
    ++place.failures;
    if (nth || error) {
      pending.status = Status::kIoError;
    } else {
      pending.corrupt = true;
    }
  } else {
    place.failures = 0;
  }
}

void SimFlash::draw_write(Stored& place, Pending& pending) {
  const bool nth = nth_.fires();
  if (plan_.write_error_forever.fires(rng_)) place.unwritable = true;
  const bool error = plan_.write_error.fires(rng_);
  const bool no_space = plan_.no_space.fires(rng_);
  const bool corrupt = plan_.corrupt_at_rest.fires(rng_);
  if (nth || place.unwritable || error) {
    pending.status = Status::kIoError;
  } else if (no_space) {
    pending.status = Status::kNoSpace;
  } else {
    pending.corrupt = corrupt;
  }
}

void SimFlash::finish_read(Stored& place, const Pending& pending) {
  --place.readers;
  const std::span<std::byte> to = pending.request.bytes;
  if (pending.status != Status::kOk) {
    ++counters_.errors;
    return;  // what it was scribbled with
  }
  std::copy_n(place.bytes.begin(), to.size(), to.begin());
  if (!pending.corrupt) return;
  ++counters_.corruptions;
  to[rng_.below(to.size())] ^= static_cast<std::byte>(1u << rng_.below(8));
}

void SimFlash::finish_write(Stored& place, const Pending& pending) {
  place.writer = false;
  const std::span<const std::byte> from = pending.request.bytes;
  EBB_CHECK(std::equal(from.begin(), from.end(), pending.copy.begin(), pending.copy.end()));
  place.bytes.resize(from.size());
  if (pending.status != Status::kOk) {
    ++counters_.errors;
    scribble(std::span(place.bytes).first(place.bytes.size() / 2));
    return;
  }
  std::copy(from.begin(), from.end(), place.bytes.begin());
  place.written = true;
  place.failures = 0;
  place.corrupt = pending.corrupt;
  if (!pending.corrupt) return;
  ++counters_.corruptions;
  place.bytes[rng_.below(place.bytes.size())] ^= static_cast<std::byte>(1u << rng_.below(8));
}

std::size_t SimFlash::poll(std::span<RawCompletion> completions) {
  std::size_t found = 0;
  while (found < completions.size() && !pending_.empty() && pending_.next_ns() <= clock_.now_ns()) {
    const Pending pending = pending_.take();
    Stored& place = stored(pending.request);
    if (pending.request.write) {
      finish_write(place, pending);
    } else {
      finish_read(place, pending);
    }
    memory_.end_transfer(pending.request.bytes);
    log_.note(EventLog::Kind::kComplete, pending.request.token, pending.status, clock_.now_ns());
    completions[found++] = {pending.request.token, pending.status};
  }
  return found;
}

void SimFlash::wait(std::chrono::nanoseconds) {
  if (!pending_.empty()) clock_.advance_to(pending_.next_ns());
}

Status SimFlash::reserve(std::uint64_t bytes) {
  const std::uint64_t count = bytes / config_.block_bytes;
  const bool refused = count > plan_.extents_available;
  log_.note(EventLog::Kind::kReserve, count, refused);
  if (refused) return Status::kNoSpace;
  if (count > extents_.size()) extents_.resize(count);
  return Status::kOk;
}

Status SimFlash::read_now(const RawRequest& request) {
  const Stored& place = stored(request);
  log_.note(EventLog::Kind::kReadNow, request.offset);
  EBB_CHECK(place.written);
  if (place.unreadable) return Status::kIoError;
  std::copy_n(place.bytes.begin(), request.bytes.size(), request.bytes.begin());
  return Status::kOk;
}

}  // namespace ebb
