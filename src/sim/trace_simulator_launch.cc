// See trace_simulator.h: one launch, from what it asks for to its end.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ebb/status.h"
#include "sim/trace_simulator.h"

namespace ebb {
namespace {

// Blocks that a device faults for at once, before it needs an answer.
constexpr std::uint32_t kFaultsAtOnce = 32;

}  // namespace

std::uint64_t TraceSimulator::duration_ns(Trace::LaunchIndex index) const {
  const std::uint64_t ns = trace_.launches[index].ns;
  if (!options_.vary) return ns;
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(ns) * options_.vary(iteration_, index)));
}

// Once, and pieces that lie side by side together: they are one operand of the program's.
void TraceSimulator::announce_use(Trace::TensorIndex tensor, bool written) {
  const std::uint64_t offset = placed_[tensor].offset;
  const std::uint64_t bytes = std::max<std::uint64_t>(trace_.tensors[tensor].bytes, 1);
  const auto holds = [&](const Core::Range& range) {
    return range.offset <= offset && offset < range.offset + range.bytes;
  };
  if (std::any_of(ranges_.begin(), ranges_.end(), holds)) return;
  const std::uint64_t allocation = placed_[placed_[tensor].first].offset;
  if (!ranges_.empty()) {
    Core::Range& last = ranges_.back();
    const bool next = last.allocation == allocation && last.offset + last.bytes == offset;
    if (next && last.written == written) {
      last.bytes += bytes;
      return;
    }
  }
  ranges_.push_back({offset, bytes, allocation, true, 0, written});
}

// While the device has nothing to do, what moves goes on.
void TraceSimulator::wait_for_host(Iteration& result) {
  host_ns_ += options_.machine.launch_host_ns;
  const std::uint64_t before_ns = clock_.now_ns();
  if (host_ns_ <= before_ns) return;
  while (advance(host_ns_)) {
  }
  result.stall_ns[static_cast<std::size_t>(Cause::kHost)] += host_ns_ - before_ns;
}

void TraceSimulator::launch(Trace::LaunchIndex index, Iteration& result) {
  const Trace::Launch& launch = trace_.launches[index];
  ranges_.clear();
  const auto writes = trace_.writes(launch);
  for (const Trace::TensorIndex tensor : trace_.touched(launch)) {
    announce_use(tensor, std::find(writes.begin(), writes.end(), tensor) != writes.end());
  }
  const std::uint64_t ns = duration_ns(index);
  result.ideal_ns += ns;
  wait_for_host(result);
  const std::uint64_t start_ns = clock_.now_ns();
  const bool artifact = options_.timing == Timing::kArtifact;
  const Missed missed = artifact ? count_missing() : Missed{};
  note_late();
  const std::uint64_t ticket = core_.launches().announce(launch.op, ranges_);
  core_.pump();
  flow();
  wait_for(ticket, result);
  touch_all(launch, result);
  write_all(launch);
  std::uint64_t end_ns = clock_.now_ns() + ns;
  if (artifact) end_ns = std::max(clock_.now_ns(), start_ns + ns + surcharge_ns(missed));
  lanes_.set_busy(true);
  for (std::uint64_t before = transfers_; advance(end_ns); before = transfers_) {
    end_ns += static_cast<std::uint64_t>(static_cast<double>(transfers_ - before) * config_.toll_ns);
  }
  lanes_.set_busy(false);
  core_.launches().retire(ticket);
  core_.launches().ran(ns);
  if (launch.sync) host_ns_ = clock_.now_ns() + options_.machine.sync_host_ns;
  core_.pump();
  flow();
}

// Until what was announced is there, or nothing more is on its way. Blocks come about in the order in which they were
// wanted, so it is enough to look at the first that is missing until that is there.
void TraceSimulator::wait_for(std::uint64_t ticket, Iteration& result) {
  missing_.clear();
  std::uint64_t blocks = 0;
  for (const Core::Range& range : ranges_) {
    const BlockRange all = core_.blocks_of(range.offset, range.bytes);
    blocks += all.count;
    for (BlockIndex i = all.first; i != all.end(); i = i.next()) {
      if (pending(i)) missing_.push_back(i);
    }
  }
  // A launch larger than memory waits only for its beginning: the core knows which.
  const bool all_needed = blocks <= core_.budget().frames_limit() / 2;
  std::size_t first = 0;
  const auto waits = [&] {
    while (first < missing_.size() && !pending(missing_[first])) ++first;
    return (all_needed && first < missing_.size()) || core_.launches().waits(ticket, ranges_);
  };
  while (waits()) {
    const std::uint64_t before_ns = clock_.now_ns();
    const Cause why = cause(std::span(missing_).subspan(first));
    if (!advance(kForever)) return;
    result.stall_ns[static_cast<std::size_t>(why)] += clock_.now_ns() - before_ns;
  }
}

// What the launch needs and is already on its way: the core forgets it when the launch asks for it too.
void TraceSimulator::note_late() {
  late_.clear();
  for (const Core::Range& range : ranges_) {
    const BlockRange blocks = core_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (core_.table()[i].state == BlockState::kFetching) late_.push_back(i);
    }
  }
  std::sort(late_.begin(), late_.end());
}

bool TraceSimulator::pending(BlockIndex block) const {
  return core_.table()[block].state != BlockState::kResident && core_.engine().pending(block);
}

// By the first of the missing blocks that is on its way; those behind it have to wait for it anyway.
TraceSimulator::Cause TraceSimulator::cause(std::span<const BlockIndex> missing) const {
  for (const BlockIndex index : missing.first(std::min<std::size_t>(missing.size(), LaneQueue::kDepth))) {
    const Block& block = core_.table()[index];
    if (block.state != BlockState::kFetching) continue;
    return std::binary_search(late_.begin(), late_.end(), index) ? Cause::kLate : Cause::kFetch;
  }
  return Cause::kNoFrame;
}

void TraceSimulator::touch_all(const Trace::Launch& launch, Iteration& result) {
  for (const Trace::TensorIndex tensor : trace_.touched(launch)) touch(blocks_of(tensor), result);
}

// The device works through the blocks in order; some absent ones at once.
void TraceSimulator::touch(BlockRange blocks, Iteration& result) {
  BlockIndex next = blocks.first;
  while (next != blocks.end()) {
    faulted_.clear();
    for (; next != blocks.end() && faulted_.size() < kFaultsAtOnce; next = next.next()) {
      if (core_.table()[next].state == BlockState::kResident) continue;
      faulted_.push_back(next);
      core_.fault(next);
    }
    if (faulted_.empty()) continue;
    result.faults += faulted_.size();
    const std::uint64_t before_ns = clock_.now_ns();
    core_.pump();
    flow();
    const auto waits = [&] {
      return std::any_of(faulted_.begin(), faulted_.end(),
                         [&](BlockIndex i) { return core_.table()[i].awaited || core_.engine().pending(i); });
    };
    while (waits()) {
      if (advance(kForever)) continue;
      EBB_CHECK(core_.engine().starved().valid());
      throw Error(Status::kNoMemory,
                  "the trace cannot run: a launch needs a block and nothing can leave device memory");
    }
    while (advance(before_ns + options_.machine.fault_ns)) {
    }
    result.stall_ns[static_cast<std::size_t>(Cause::kFault)] += clock_.now_ns() - before_ns;
  }
}

void TraceSimulator::write_all(const Trace::Launch& launch) {
  for (const Trace::TensorIndex tensor : trace_.writes(launch)) {
    const BlockRange blocks = blocks_of(tensor);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      const Block& block = core_.table()[i];
      if (block.state == BlockState::kResident) versions_.change(block.frame);
    }
  }
}

TraceSimulator::Missed TraceSimulator::count_missing() const {
  Missed missed;
  for (const Core::Range& range : ranges_) {
    const BlockRange blocks = core_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      const Block& block = core_.table()[i];
      // Who listens has asked for new blocks when they were allocated.
      if (block.state == BlockState::kUntouched && !core_.policy().listens()) ++missed.fresh;
      if (block.state != BlockState::kOnFlash) continue;
      ++(core_.table().tier_below(block) == Tier::kHost ? missed.host : missed.flash);
    }
  }
  return missed;
}

// What the artifact adds for page faults (its integer division makes the measured fault times vanish).
std::uint64_t TraceSimulator::surcharge_ns(const Missed& missed) const {
  const auto bytes = static_cast<double>(options_.block_bytes);
  const Machine& machine = options_.machine;
  const double flash = machine.has_flash() ? static_cast<double>(missed.flash) * bytes / machine.flash_read_bps : 0;
  const double link = static_cast<double>(missed.host + missed.fresh) * bytes / machine.device_link_bps;
  return static_cast<std::uint64_t>(std::llround(std::max(flash, link) * 1e9));
}

}  // namespace ebb
