// See trace_simulator.h.
#include "sim/trace_simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "core/heap_places.h"
#include "ebb/status.h"
#include "plan/guide/make_guide.h"

namespace ebb {
namespace {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();
// Blocks that a device faults for at once, before it needs an answer.
constexpr std::uint32_t kFaultsAtOnce = 32;

std::uint64_t blocks_for(std::uint64_t bytes, std::uint64_t block_bytes) {
  return (bytes + block_bytes - 1) / block_bytes;
}

Core::Config config_for(const Trace& trace, const TraceSimulator::Options& options) {
  std::uint64_t blocks = 64;
  for (const Trace::Tensor& tensor : trace.tensors) blocks += blocks_for(tensor.bytes, options.block_bytes) + 1;
  if (blocks > (1u << 27)) {
    throw Error(Status::kInvalid, "the trace has too many blocks to simulate; use larger ones: --block");
  }
  const std::uint64_t host =
      options.machine.has_host() ? std::min(options.machine.host_bytes / options.block_bytes, 2 * blocks) : 0;
  Core::Config config;
  config.block_bytes = options.block_bytes;
  config.budget_bytes = options.machine.device_bytes;
  // A quarter of the space is for small tensors; sizes that do not fit into freed ranges take fresh addresses.
  config.blocks = static_cast<std::uint32_t>((16 * blocks + 3) / 4 * 4);
  config.extents = options.machine.has_flash() ? static_cast<std::uint32_t>(2 * blocks) : 0;
  config.host_extents = static_cast<std::uint32_t>(host);
  config.queue_depth = 32;
  config.tables_in_budget = false;
  const auto bytes = static_cast<double>(options.block_bytes);
  config.host_in_ns = bytes * 1e9 / std::max(options.machine.device_link_bps, 1.0);
  config.flash_in_ns = bytes * 1e9 / std::max(options.machine.flash_read_bps, 1.0);
  config.flash_out_ns = bytes * 1e9 / std::max(options.machine.flash_write_bps, 1.0);
  if (options.machine.flash_total_bps > 0) config.flash_both_ns = bytes * 1e9 / options.machine.flash_total_bps;
  return config;
}

std::unique_ptr<Policy> guided(std::unique_ptr<Policy> policy, const Trace& trace, const Core::Config& config,
                               const TraceSimulator::Options& options) {
  if (!options.guided) return policy;
  Trace told = trace;
  for (Trace::LaunchIndex i = 0; i < told.launches.size(); ++i) {
    for (const Trace::TensorIndex tensor : told.touched(told.launches[i])) {
      Trace::Tensor& made = told.tensors[tensor];  // here, what a launch makes is there when it is announced
      if (!made.persistent && made.allocated_before == Trace::kNone) made.allocated_before = i;
    }
  }
  HeapPlaces places(config, 1);
  static_cast<void>(policy->take_guide(make_guide(told, places, [](std::uint32_t op) { return op; })));
  return policy;
}

}  // namespace

TraceSimulator::TraceSimulator(const Trace& trace, std::unique_ptr<Policy> policy, const Options& options)
    : trace_(trace),
      options_(options),
      born_(trace.launches.size() + 1),
      dead_(trace.launches.size() + 1),
      placed_(trace.tensors.size()),
      config_(config_for(trace, options)),
      core_(config_, memory_, guided(std::move(policy), trace, config_, options)),
      versions_(config_.frames()),
      lanes_(options.machine, options.block_bytes, config_.host_extents, options.timing == Timing::kStrict, versions_,
             clock_) {
  core_.budget().set_extents(config_.extents, false);
  std::vector<Trace::LaunchIndex> first(trace.tensors.size(), Trace::kNone);
  std::vector<Trace::LaunchIndex> last(trace.tensors.size(), Trace::kNone);
  for (Trace::LaunchIndex i = 0; i < trace.launches.size(); ++i) {
    if (trace.launches[i].ns == Trace::kUnknown) {
      throw Error(Status::kInvalid, "launch " + std::to_string(i) + " (" + trace.ops[trace.launches[i].op] +
                                        ") has no duration (\"ns\"); record the trace with timing");
    }
    for (const Trace::TensorIndex tensor : trace.touched(trace.launches[i])) {
      if (first[tensor] == Trace::kNone) first[tensor] = i;
      last[tensor] = i;
    }
  }
  for (Trace::TensorIndex i = 0; i < trace.tensors.size(); ++i) {
    const Trace::Tensor& tensor = trace.tensors[i];
    if (tensor.persistent || (first[i] == Trace::kNone && tensor.allocated_before == Trace::kNone)) continue;
    born_[tensor.allocated_before != Trace::kNone ? tensor.allocated_before : first[i]].push_back(i);
    dead_[tensor.freed_before != Trace::kNone ? tensor.freed_before : last[i] + 1].push_back(i);
  }
}

BlockRange TraceSimulator::blocks_of(Trace::TensorIndex tensor) const {
  return core_.blocks_of(placed_[tensor].offset, trace_.tensors[tensor].bytes);
}

void TraceSimulator::allocate(Trace::TensorIndex tensor) {
  const std::uint64_t bytes = std::max<std::uint64_t>(trace_.tensors[tensor].bytes, 1);
  if (core_.allocations().allocate(bytes, placed_[tensor].offset) != Status::kOk) {
    throw Error(Status::kNoMemory, "the trace does not fit: device, host and flash together are too small at tensor " +
                                       std::to_string(trace_.tensors[tensor].id));
  }
  placed_[tensor].live = true;
  flow();
}

void TraceSimulator::free(Trace::TensorIndex tensor) {
  core_.allocations().deallocate(placed_[tensor].offset);
  placed_[tensor].live = false;
}

void TraceSimulator::map_file() {
  std::uint64_t bytes = 0;
  for (Trace::TensorIndex i = 0; i < trace_.tensors.size(); ++i) {
    if (!trace_.tensors[i].mapped) continue;
    placed_[i] = {bytes, true};
    bytes += trace_.tensors[i].bytes;
  }
  if (bytes == 0) return;
  std::uint64_t first = 0;
  if (core_.files().map(0, 0, bytes, first) != Status::kOk) {
    throw Error(Status::kNoMemory, "the trace does not fit: there is no room for the file that it maps");
  }
  for (Trace::TensorIndex i = 0; i < trace_.tensors.size(); ++i) {
    if (trace_.tensors[i].mapped) placed_[i].offset += first;
  }
}

// As a program makes its weights: one after the other, what does not fit leaves.
void TraceSimulator::make_persistent() {
  for (Trace::TensorIndex i = 0; i < trace_.tensors.size(); ++i) {
    if (!trace_.tensors[i].persistent || trace_.tensors[i].mapped) continue;
    allocate(i);
    Iteration ignored;
    touch(blocks_of(i), ignored);
    const BlockRange blocks = blocks_of(i);
    for (BlockIndex block = blocks.first; block != blocks.end(); block = block.next()) {
      if (const FrameIndex frame = core_.table()[block].frame; frame.valid()) versions_.change(frame);
    }
  }
  while (advance(kForever)) {
  }
}

std::vector<TraceSimulator::Iteration> TraceSimulator::run() {
  map_file();
  make_persistent();
  std::vector<Iteration> results(options_.iterations);
  for (iteration_ = 0; iteration_ < options_.iterations; ++iteration_) iterate(results[iteration_]);
  return results;
}

void TraceSimulator::iterate(Iteration& result) {
  const std::uint64_t start_ns = clock_.now_ns();
  const std::uint64_t wasted = core_.engine().counters().wasted;
  for (std::size_t lane = 0; lane < kLanes; ++lane) result.lanes[lane] = lanes_.use(static_cast<Lane>(lane));
  for (Trace::LaunchIndex i = 0; i <= trace_.launches.size(); ++i) {
    for (const Trace::TensorIndex tensor : dead_[i]) {
      if (!forgets_frees()) free(tensor);
    }
    for (const Trace::TensorIndex tensor : born_[i]) {
      if (!placed_[tensor].live) allocate(tensor);
    }
    if (i < trace_.launches.size()) launch(i, result);
  }
  core_.launches().step();
  core_.pump();
  flow();
  result.ns = clock_.now_ns() - start_ns;
  result.wasted_blocks = core_.engine().counters().wasted - wasted;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    LaneQueue::LaneUse& use = result.lanes[lane];
    const LaneQueue::LaneUse& now = lanes_.use(static_cast<Lane>(lane));
    use = {now.bytes - use.bytes, now.busy_ns - use.busy_ns};
  }
}

std::uint64_t TraceSimulator::duration_ns(Trace::LaunchIndex index) const {
  const std::uint64_t ns = trace_.launches[index].ns;
  if (!options_.vary) return ns;
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(ns) * options_.vary(iteration_, index)));
}

void TraceSimulator::launch(Trace::LaunchIndex index, Iteration& result) {
  const Trace::Launch& launch = trace_.launches[index];
  ranges_.clear();
  for (const Trace::TensorIndex tensor : trace_.touched(launch)) {
    const std::uint64_t offset = placed_[tensor].offset;
    const bool seen = std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& r) { return r.offset == offset; });
    if (seen) continue;
    const auto writes = trace_.writes(launch);
    const bool written = std::find(writes.begin(), writes.end(), tensor) != writes.end();
    ranges_.push_back({offset, std::max<std::uint64_t>(trace_.tensors[tensor].bytes, 1), offset, true, 0, written});
  }
  const std::uint64_t ns = duration_ns(index);
  result.ideal_ns += ns;
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
  std::uint64_t end_ns = clock_.now_ns() + ns + options_.machine.launch_cpu_ns;
  if (artifact) end_ns = std::max(clock_.now_ns(), start_ns + ns + surcharge_ns(missed));
  lanes_.set_busy(true);
  for (std::uint64_t before = transfers_; advance(end_ns); before = transfers_) {
    end_ns += (transfers_ - before) * options_.machine.transfer_cpu_ns;
  }
  lanes_.set_busy(false);
  core_.launches().retire(ticket);
  core_.launches().ran(ns);
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

// Hands every request to its lane.
void TraceSimulator::flow() {
  std::array<FlashRequest, 16> requests;
  for (std::size_t taken = core_.take_requests(requests); taken > 0; taken = core_.take_requests(requests)) {
    lanes_.submit(std::span(requests).first(taken));
  }
}

// To the next completion, at most to `until_ns`; false when that was reached, or nothing is under way.
bool TraceSimulator::advance(std::uint64_t until_ns) {
  flow();
  if (lanes_.idle() || lanes_.next_ns() > until_ns) {
    if (until_ns != kForever) clock_.advance_to(until_ns);
    return false;
  }
  lanes_.wait(std::chrono::nanoseconds::max());
  std::array<FlashCompletion, LaneQueue::kDepth> completions;
  const std::size_t count = lanes_.poll(completions);
  for (const FlashCompletion& completion : std::span(completions).first(count)) core_.complete(completion);
  transfers_ += count;
  if (count > 0) {
    core_.pump();
    flow();
  }
  return true;
}

}  // namespace ebb
