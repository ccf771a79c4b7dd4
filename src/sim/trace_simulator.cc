// See trace_simulator.h.
#include "sim/trace_simulator.h"

#include <algorithm>
#include <string>

#include "core/heap_places.h"
#include "ebb/status.h"
#include "plan/guide/make_guide.h"
#include "plan/vitality.h"

namespace ebb {
namespace {

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
  // Each heap has a part of the space, and sizes that do not fit into freed ranges take fresh addresses. Tables are as
  // large as the space: it is made for what is alive together, and not for all that ever is.
  const std::uint64_t alive =
      64 + analyse(trace, options.block_bytes).peak_live_bytes / options.block_bytes + trace.tensors.size();
  config.blocks = static_cast<std::uint32_t>(16 * std::min(alive, blocks));
  config.extents = options.machine.has_flash() ? static_cast<std::uint32_t>(2 * blocks) : 0;
  config.host_extents = static_cast<std::uint32_t>(host);
  config.queue_depth = 32;
  config.tables_in_budget = false;
  const auto bytes = static_cast<double>(options.block_bytes);
  config.host_in_ns = bytes * 1e9 / std::max(options.machine.device_link_bps, 1.0);
  config.flash_in_ns = bytes * 1e9 / std::max(options.machine.flash_read_bps, 1.0);
  config.flash_out_ns = bytes * 1e9 / std::max(options.machine.flash_write_bps, 1.0);
  if (options.machine.flash_total_bps > 0) config.flash_both_ns = bytes * 1e9 / options.machine.flash_total_bps;
  if (options.machine.toll_bps > 0) config.toll_ns = bytes * 1e9 / options.machine.toll_bps;
  return config;
}

std::unique_ptr<Policy> guided(std::unique_ptr<Policy> policy, const Trace& trace, const Core::Config& config,
                               const TraceSimulator::Options& options) {
  const auto continues = [](const Trace::Tensor& tensor) { return tensor.continues; };
  if (!options.guided || std::any_of(trace.tensors.begin(), trace.tensors.end(), continues)) return policy;
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
  join_pieces();
  std::vector<Trace::LaunchIndex> first(trace.tensors.size(), Trace::kNone);
  std::vector<Trace::LaunchIndex> last(trace.tensors.size(), Trace::kNone);
  for (Trace::LaunchIndex i = 0; i < trace.launches.size(); ++i) {
    if (trace.launches[i].ns == Trace::kUnknown) {
      throw Error(Status::kInvalid, "launch " + std::to_string(i) + " (" + trace.ops[trace.launches[i].op] +
                                        ") has no duration (\"ns\"); record the trace with timing");
    }
    for (const Trace::TensorIndex tensor : trace.touched(trace.launches[i])) {
      const Trace::TensorIndex whole = placed_[tensor].first;
      if (first[whole] == Trace::kNone) first[whole] = i;
      last[whole] = i;
    }
  }
  for (Trace::TensorIndex i = 0; i < trace.tensors.size(); ++i) {
    const Trace::Tensor& tensor = trace.tensors[i];
    if (placed_[i].first != i || tensor.persistent) continue;
    if (first[i] == Trace::kNone && tensor.allocated_before == Trace::kNone) continue;
    const Trace::LaunchIndex born = tensor.allocated_before != Trace::kNone ? tensor.allocated_before : first[i];
    const Trace::LaunchIndex dead = tensor.freed_before != Trace::kNone ? tensor.freed_before : last[i] + 1;
    if (born == dead) continue;  // between two launches
    born_[born].push_back(i);
    dead_[dead].push_back(i);
  }
}

BlockRange TraceSimulator::blocks_of(Trace::TensorIndex tensor) const {
  return core_.blocks_of(placed_[tensor].offset, trace_.tensors[tensor].bytes);
}

// What lies in a file is one allocation anyway.
void TraceSimulator::join_pieces() {
  for (Trace::TensorIndex i = 0; i < trace_.tensors.size(); ++i) {
    const Trace::Tensor& tensor = trace_.tensors[i];
    placed_[i].first = tensor.continues && !tensor.mapped ? placed_[i - 1].first : i;
  }
}

void TraceSimulator::allocate(Trace::TensorIndex tensor) {
  std::uint64_t bytes = 0, offset = 0;
  Trace::TensorIndex end = tensor;
  for (; end < placed_.size() && placed_[end].first == tensor; ++end) {
    placed_[end].offset = bytes;
    bytes += trace_.tensors[end].bytes;
  }
  if (core_.allocations().allocate(std::max<std::uint64_t>(bytes, 1), offset) != Status::kOk) {
    throw Error(Status::kNoMemory, "the trace does not fit: device, host and flash together are too small at tensor " +
                                       std::to_string(trace_.tensors[tensor].id));
  }
  for (Trace::TensorIndex piece = tensor; piece < end; ++piece) placed_[piece].offset += offset;
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
    placed_[i] = {bytes, true, i};
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
    if (placed_[i].first == i) allocate(i);
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
  std::vector<Iteration> results;
  const auto launches = static_cast<Trace::LaunchIndex>(trace_.launches.size());
  if (trace_.sequence) {
    for (iteration_ = 0; iteration_ < trace_.steps.size(); ++iteration_) {
      results.push_back(iterate(trace_.begin_after(iteration_), trace_.steps[iteration_]));
    }
    return results;
  }
  for (iteration_ = 0; iteration_ < options_.iterations; ++iteration_) results.push_back(iterate(0, launches));
  return results;
}

void TraceSimulator::free_before(Trace::LaunchIndex launch) {
  for (const Trace::TensorIndex tensor : dead_[launch]) {
    if (placed_[tensor].live && !forgets_frees()) free(tensor);
  }
}

void TraceSimulator::allocate_before(Trace::LaunchIndex launch) {
  for (const Trace::TensorIndex tensor : born_[launch]) {
    if (!placed_[tensor].live) allocate(tensor);
  }
}

// What dies at the end of an iteration dies in it, and what is born between two in the later one.
TraceSimulator::Iteration TraceSimulator::iterate(Trace::LaunchIndex first, Trace::LaunchIndex end) {
  Iteration result;
  const std::uint64_t start_ns = clock_.now_ns();
  const std::uint64_t wasted = core_.engine().counters().wasted;
  for (std::size_t lane = 0; lane < kLanes; ++lane) result.lanes[lane] = lanes_.use(static_cast<Lane>(lane));
  for (Trace::LaunchIndex i = first; i < end; ++i) {
    free_before(i);
    allocate_before(i);
    launch(i, result);
  }
  free_before(end);
  if (!trace_.sequence) allocate_before(end);
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
  return result;
}

TraceSimulator::Iteration& TraceSimulator::Iteration::operator+=(const Iteration& other) {
  ns += other.ns;
  ideal_ns += other.ideal_ns;
  for (std::size_t cause = 0; cause < kCauses; ++cause) stall_ns[cause] += other.stall_ns[cause];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    lanes[lane].bytes += other.lanes[lane].bytes;
    lanes[lane].busy_ns += other.lanes[lane].busy_ns;
  }
  faults += other.faults;
  wasted_blocks += other.wasted_blocks;
  return *this;
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
