// See sim_flash.h.
#include "sim/sim_flash.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ebb {
namespace {

// The engine tries a transfer three times: a fault that passes must have passed by then.
constexpr std::uint32_t kPassingFaultsMax = 2;
constexpr std::uint64_t kSlowMax = 100;  // times the latency
constexpr std::uint64_t kStallMin = 1'000'000;
constexpr std::uint64_t kStallMax = 5'000'000'000;

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

std::optional<Fault> SimFlash::damage(std::uint32_t extent) const {
  const Stored& place = extents_.at(extent);
  return place.unreadable ? Fault::kReadErrorForever : place.damage;
}

std::optional<Fault> SimFlash::damage(const FilePlace& place) const {
  const auto found = files_.find({place.file, place.offset});
  if (found == files_.end() || !found->second.unreadable) return std::nullopt;
  return Fault::kReadErrorForever;
}

bool SimFlash::fires(Fault fault) {
  if (!plan_[fault].fires(rng_)) return false;
  ++counters_.injected[fault];
  return true;
}

void SimFlash::scribble(std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng_.next());
}

void SimFlash::flip(std::span<std::byte> bytes) {
  ++counters_.corruptions;
  bytes[rng_.below(bytes.size())] ^= static_cast<std::byte>(1u << rng_.below(8));
}

void SimFlash::submit(const RawRequest& request) {
  EBB_CHECK_LT(pending_.size(), config_.depth);
  EBB_CHECK(request.bytes.size() == config_.block_bytes || request.file != FilePlace::kNoFile);
  memory_.begin_transfer(request.bytes);
  if (plan_[Fault::kBitRot].fires(rng_)) rot();
  Stored& place = stored(request);
  // Two transfers of one extent, one of them a write, have no order: nobody could say what comes out.
  EBB_CHECK(!place.writer);
  if (request.write) EBB_CHECK_EQ(place.readers, 0u);
  Pending pending{request, Status::kOk, {}, 0, {}};
  if (request.write) {
    EBB_CHECK(!place.refused);
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
  const std::uint64_t due_ns = draw_due(pending);
  log_.note(EventLog::Kind::kSubmit, request.write, request.token, request.offset, due_ns);
  pending_.add(due_ns, std::move(pending));
}

std::uint64_t SimFlash::draw_due(Pending& pending) {
  if (fires(Fault::kStall)) {
    stalled_until_ns_ = std::max(stalled_until_ns_, clock_.now_ns() + rng_.between(kStallMin, kStallMax));
    read_lane_free_ns_ = std::max(read_lane_free_ns_, stalled_until_ns_);
    write_lane_free_ns_ = std::max(write_lane_free_ns_, stalled_until_ns_);
  }
  const bool write = pending.request.write;
  std::uint64_t& lane_free_ns = write ? write_lane_free_ns_ : read_lane_free_ns_;
  lane_free_ns =
      std::max(lane_free_ns, clock_.now_ns()) + (write ? config_.write_ns_per_block : config_.read_ns_per_block);
  std::uint64_t due_ns = lane_free_ns + config_.latency_ns + rng_.below(config_.jitter_ns + 1);
  if (fires(Fault::kSlow)) due_ns += config_.latency_ns * rng_.between(1, kSlowMax);
  if (fires(Fault::kShortTransfer)) pending.rest_ns = rng_.between(1, kSlowMax * config_.latency_ns);
  return due_ns;
}

// Of an extent that nobody is just reading or writing; there may be none, or nothing in it.
void SimFlash::rot() {
  if (extents_.empty()) return;
  Stored& place = extents_[rng_.below(extents_.size())];
  if (!place.written || !place.idle()) return;
  ++counters_.injected[Fault::kBitRot];
  for (std::uint64_t bits = rng_.between(1, 8); bits > 0; --bits) flip(place.bytes);
  place.damage = Fault::kBitRot;
}

void SimFlash::draw_read(Stored& place, Pending& pending) {
  const bool nth = nth_.fires();
  const bool in_file = pending.request.file != FilePlace::kNoFile;
  if (fires(Fault::kReadErrorForever)) place.unreadable = true;
  if (place.unreadable) {
    pending.status = Status::kIoError;
    return;
  }
  std::optional<Fault> fault;
  std::uint32_t& in_a_row = passing_[pending.request.bytes.data()];
  if (in_a_row < kPassingFaultsMax) {
    if (fires(Fault::kReadError)) fault = Fault::kReadError;
    // What a file has at its first reading is what it has.
    if (!fault && !in_file && fires(Fault::kCorruptRead)) fault = Fault::kCorruptRead;
    if (!fault && !in_file && !place.before.empty() && fires(Fault::kStaleRead)) fault = Fault::kStaleRead;
  }
  const bool failed = nth || fault == Fault::kReadError;
  in_a_row = failed || fault ? in_a_row + 1 : 0;
  if (failed) {
    pending.status = Status::kIoError;
  } else {
    pending.fault = fault;
  }
}

void SimFlash::draw_write(Stored& place, Pending& pending) {
  if (fires(Fault::kWriteErrorForever)) place.unwritable = true;
  if (nth_.fires() || place.unwritable || fires(Fault::kWriteError)) {
    pending.status = Status::kIoError;
    return;
  }
  if (fires(Fault::kNoSpace)) {
    pending.status = Status::kNoSpace;
    return;
  }
  for (const Fault fault : {Fault::kCorruptAtRest, Fault::kLostWrite, Fault::kMisdirectedWrite, Fault::kTornWrite}) {
    if (!fires(fault)) continue;
    pending.fault = fault;
    return;
  }
}

// The first half of a short transfer.
void SimFlash::finish_half(Stored& place, const Pending& pending) {
  const std::span<std::byte> bytes = pending.request.bytes;
  const auto half = static_cast<std::ptrdiff_t>(bytes.size() / 2);
  if (!pending.request.write) {
    std::copy_n(place.bytes.begin(), half, bytes.begin());
  } else if (place.written && !pending.fault) {
    std::copy_n(bytes.begin(), half, place.bytes.begin());
  }
}

void SimFlash::finish_read(Stored& place, const Pending& pending) {
  --place.readers;
  const std::span<std::byte> to = pending.request.bytes;
  if (pending.status != Status::kOk) {
    ++counters_.errors;
    return;  // what it was scribbled with
  }
  const std::vector<std::byte>& from = pending.fault == Fault::kStaleRead ? place.before : place.bytes;
  std::copy_n(from.begin(), to.size(), to.begin());
  if (pending.fault == Fault::kCorruptRead) flip(to);
}

void SimFlash::finish_write(Stored& place, const Pending& pending) {
  place.writer = false;
  const std::span<const std::byte> from = pending.request.bytes;
  const bool equal =
      from.size() == pending.copy.size() && std::memcmp(from.data(), pending.copy.data(), from.size()) == 0;
  EBB_CHECK(equal);
  place.before = place.bytes;
  place.bytes.resize(from.size());
  if (pending.status != Status::kOk) {
    ++counters_.errors;
    place.refused = pending.status == Status::kIoError;
    scribble(std::span(place.bytes).first(place.bytes.size() / 2));
    return;
  }
  place.written = true;
  place.damage = pending.fault;
  if (pending.fault == Fault::kLostWrite) return;
  if (pending.fault == Fault::kMisdirectedWrite) return misdirect(place, from);
  const std::size_t count = pending.fault == Fault::kTornWrite ? from.size() / 2 : from.size();
  std::copy_n(from.begin(), count, place.bytes.begin());
  if (pending.fault == Fault::kCorruptAtRest) flip(place.bytes);
}

// To an extent other than the one that was meant.
void SimFlash::misdirect(const Stored& place, std::span<const std::byte> bytes) {
  Stored& other = extents_[rng_.below(extents_.size())];
  if (&other == &place || !other.idle()) return;  // nowhere, then
  other.bytes.assign(bytes.begin(), bytes.end());
  other.damage = Fault::kMisdirectedWrite;
}

// Whether a transfer is done by now; of those of which a half is, the other one begins.
bool SimFlash::due() {
  while (!pending_.empty() && pending_.next_ns() <= clock_.now_ns()) {
    if (pending_.next().rest_ns == 0) return true;
    const std::uint64_t half_ns = pending_.next_ns();
    Pending half = pending_.take();
    finish_half(stored(half.request), half);
    const std::uint64_t due_ns = half_ns + std::exchange(half.rest_ns, 0);
    pending_.add(due_ns, std::move(half));
  }
  return false;
}

std::size_t SimFlash::poll(std::span<RawCompletion> completions) {
  std::size_t found = 0;
  while (found < completions.size() && due()) {
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
  while (!pending_.empty() && !due()) clock_.advance_to(pending_.next_ns());
}

Status SimFlash::reserve(std::uint64_t bytes) {
  const std::uint64_t count = bytes / config_.block_bytes;
  const bool refused = count > plan_.extents_available;
  counters_.full += refused ? 1 : 0;
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
