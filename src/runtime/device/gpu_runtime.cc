// GpuRuntime: the program's side. The mover: gpu_mover.cc.
#include "runtime/device/gpu_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "base/internal_thread.h"
#include "ebb/units.h"

namespace ebb {
namespace {

constexpr std::size_t kAlignment = 512;  // what CUDA's own allocations have, and kernels rely on
constexpr std::size_t kTakeBatch = 32;
// More rounds than this can only be moves that nobody waits for: they go on at the next call.
constexpr int kRoundsMax = 64;
constexpr std::chrono::milliseconds kLook{5};
constexpr int kLooksMax = 4;
// How long other threads may keep blocks that a launch needs, and flash may take, until the launch is refused.
constexpr std::chrono::seconds kOthersMax{10};
constexpr std::chrono::minutes kFlashMax{10};

KernelTimes::Kind kind_of(std::uint64_t op, std::span<const Core::Range> ranges) {
  std::uint64_t bytes = 0;
  for (const Core::Range& range : ranges) bytes += range.bytes;
  return KernelTimes::kind_of(op, bytes);
}

}  // namespace

GpuRuntime::GpuRuntime(const Options& options, Parts parts)
    : options_(options),
      device_(std::move(parts.device)),
      timelines_(std::move(parts.timelines)),
      flash_(std::move(parts.flash)),
      flash_description_(std::move(parts.flash_description)),
      flash_directory_(std::move(parts.flash_directory)),
      frames_(*device_, *timelines_, parts.config.blocks, parts.config.frames(), options.device_strict),
      queue_(*device_, frames_, *timelines_, parts.config.block_bytes, parts.config.host_extents,
             parts.config.queue_depth),
      times_(*device_),
      core_(parts.config, frames_, std::move(parts.policy)),
      on_flash_(parts.config.queue_depth),
      recorder_(parts.recorder),
      process_(::getpid()) {
  stats_file_.open(options.stats_path, policy(), description());
  start_threads();
}

void GpuRuntime::start_threads() {
  const auto map = [this] { map_loop(); };
  const auto move = [this] { move_loop(); };
  if (start_internal_thread("ebb-mapper", map, mapper_) == Status::kOk &&
      start_internal_thread("ebb-mover", move, mover_) == Status::kOk) {
    return;
  }
  stop_threads();
  throw Error(Status::kUnsupported,
              "device memory cannot be managed without threads, which the system refuses: lift "
              "ulimit -u, or the limit on tasks of the container");
}

void GpuRuntime::stop_threads() {
  stopping_ = true;
  flash_->wake();
  to_map_.notify_all();
  if (mapper_.joinable()) mapper_.join();
  if (mover_.joinable()) mover_.join();
}

GpuRuntime::~GpuRuntime() {
  if (in_child()) {
    // A child has neither the threads nor the device: their handles are forgotten.
    new (&mapper_) std::thread();
    new (&mover_) std::thread();
    // Whoever waited did so in the parent; a condition that has waiters cannot be destroyed.
    for (OrderedCondition* condition : {&changed_, &to_map_, &mapped_}) new (condition) OrderedCondition();
    static_cast<void>(flash_.release());
    times_.forget();
    static_cast<void>(timelines_.release());
    static_cast<void>(device_.release());
    return;
  }
  stop_threads();
  static_cast<void>(timelines_->wait_here(timelines_->all()));
  for (const Launch& launch : running_) times_.drop(launch.sample);
  if (recorder_ != nullptr && !recorder_->is_over()) write_recording();
}

// Of a parent's lock nobody knows in a child who holds it: asked before it is taken.
bool GpuRuntime::in_child() const { return ::getpid() != process_; }

void GpuRuntime::check_process() const {
  if (in_child()) {
    throw Error(Status::kUnsupported,
                "a forked process cannot use the GPU of its parent: start workers with spawn or forkserver");
  }
}

void GpuRuntime::check_device() const {
  if (!device_->failure().empty()) throw Error(Status::kIoError, device_->failure());
}

void GpuRuntime::fail(Status status) const {
  check_device();
  if (status == Status::kNoMemory) {
    throw Error(status,
                "the GPU has no memory left for what keeps track of its memory: give less with --device-memory "
                "(EBB_DEVICE_MEMORY)");
  }
  if (status == Status::kBusy) {
    throw Error(Status::kIoError, "the GPU has not finished what it was given in half an hour: a kernel hangs");
  }
  throw Error(status, "the GPU refused to copy or to map: " + std::string(name(status)));
}

void* GpuRuntime::allocate(std::size_t bytes) {
  check_process();
  const Lock lock(mutex_);
  return device_->base() + take(bytes);
}

// Under the lock. In strict mode nothing shares a block: what a neighbour announced would hide what is missing.
std::uint64_t GpuRuntime::take(std::size_t bytes) {
  check_device();
  if (bytes > device_->bytes()) out_of_memory(bytes);
  const std::size_t step = options_.device_strict ? core_.block_bytes() : kAlignment;
  const std::size_t rounded = std::max<std::size_t>((bytes + step - 1) / step, 1) * step;
  std::uint64_t offset = 0;
  if (core_.allocations().allocate(rounded, offset) != Status::kOk) out_of_memory(bytes);
  const BlockRange blocks = core_.blocks_of(offset, rounded);
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    if (const FrameIndex frame = core_.table()[i].frame; frame.valid()) frames_.renew(frame);
  }
  advance();
  peak_resident_bytes_ = std::max(peak_resident_bytes_, core_.budget().resident_bytes());
  return offset;
}

std::span<std::byte> GpuRuntime::adopt(std::span<std::byte>) {
  throw Error(
      Status::kUnsupported,
      "a runtime over a GPU cannot adopt memory of the host: allocate from it and copy, or open a runtime without "
      "a device");
}

void GpuRuntime::deallocate_on(void* data, Stream stream) noexcept {
  if (data == nullptr || in_child()) return;
  const Lock lock(mutex_);
  const std::uint64_t offset = offset_of(data);
  const BlockRange blocks = core_.blocks_of(offset, core_.allocations().bytes_of(offset));
  // Work that uses it may have been started since the last mark: in this stream, and in open launches.
  std::array<bool, Fences::kLinesMax> lines{};
  if (const std::uint32_t line = timelines_->line_of(stream); line != Timelines::kNone) lines[line] = true;
  for (const Launch& launch : running_) lines[launch.line] = true;
  for (std::uint32_t line = 0; line < lines.size(); ++line) {
    if (lines[line]) static_cast<void>(mark_uses(line, {&blocks, 1}));
  }
  drop_pin(offset);
  core_.allocations().deallocate(offset);
  if (!core_.engine().idle() && device_->failure().empty()) advance();
  changed_.notify_all();
}

std::vector<Core::Range> GpuRuntime::ranges_of(std::span<const Access> accesses) const {
  std::vector<Core::Range> ranges;
  ranges.reserve(accesses.size());
  for (const Access& access : accesses) {
    const std::uint64_t offset = offset_of(access.data);
    if (access.bytes == 0 || offset >= device_->bytes() || access.bytes > device_->bytes() - offset) continue;
    Core::Range range{offset, access.bytes, 0, false, access.group, access.written};
    range.in_allocation = access.allocation != nullptr && manages(access.allocation);
    range.allocation = range.in_allocation ? offset_of(access.allocation) : 0;
    ranges.push_back(range);
  }
  return ranges;
}

std::vector<BlockIndex> GpuRuntime::blocks_of(std::span<const Core::Range> ranges) const {
  std::vector<BlockIndex> all;
  for (const Core::Range& range : ranges) {
    const BlockRange blocks = core_.blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) all.push_back(i);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Lets the core go on as far as it can without waiting: copies between device and host are done, for it, once they are
// in their stream.
void GpuRuntime::advance() {
  std::array<FlashRequest, kTakeBatch> requests;
  for (int round = 0; round < kRoundsMax; ++round) {
    core_.pump();
    const std::size_t taken = core_.take_requests(requests);
    for (const FlashRequest& request : std::span(requests).first(taken)) queue_.start(request);
    bool more = taken > 0;
    for (FlashCompletion completion; queue_.pop(completion); more = true) core_.complete(completion);
    if (!more) break;
  }
  if (queue_.waits() || core_.budget().extents_wanted() > 0) flash_->wake();
  if (frames_.arriving()) to_map_.notify_one();
}

std::uint64_t GpuRuntime::announce(std::uint64_t op, std::span<const Access> accesses) noexcept {
  try {
    return announce_on(nullptr, op, accesses);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: %s\n", error.what());
    if (in_child()) return 0;
    const Lock lock(mutex_);
    if (refused_.empty()) refused_ = error.what();
    return 0;
  }
}

std::uint64_t GpuRuntime::announce_on(Stream stream, std::uint64_t op, std::span<const Access> accesses) {
  check_process();
  const std::vector<Core::Range> ranges = ranges_of(accesses);
  if (ranges.empty()) return 0;
  Lock lock(mutex_);
  return begin_launch(lock, stream, op, ranges);
}

// Whoever has a launch open goes first: somebody else's turn may wait for that one's blocks.
GpuRuntime::Turn::Turn(GpuRuntime& runtime, Lock& lock) : runtime_(runtime), taken_(runtime.launches_here() == 0) {
  if (!taken_) {
    runtime.check_device();
    ++runtime.rushing_;
    return;
  }
  if (!runtime.changed_.wait_for(lock, kFlashMax, [&] { return runtime.turns_ == 0; })) runtime.fail(Status::kBusy);
  runtime.check_device();
  ++runtime.turns_;
}

GpuRuntime::Turn::~Turn() {
  (taken_ ? runtime_.turns_ : runtime_.rushing_) -= 1;
  runtime_.changed_.notify_all();
}

std::uint64_t GpuRuntime::begin_launch(Lock& lock, Stream stream, std::uint64_t op,
                                       std::span<const Core::Range> ranges) {
  const Turn turn(*this, lock);
  tell_time();
  Launch launch;
  launch.line = timelines_->line_of(stream);
  if (launch.line == Timelines::kNone || !timelines_->hold(launch.line)) {
    throw Error(Status::kInvalid, "launches are open in too many streams at once: retire some, at most " +
                                      std::to_string(Fences::kLinesMax - 4) + " streams may have any");
  }
  launch.thread = std::this_thread::get_id();
  launch.blocks = blocks_of(ranges);
  launch.ticket = core_.launches().announce(op, ranges);
  pin(launch.blocks);
  try {
    bring(turn, lock, launch.blocks);
    order(lock, launch);
  } catch (...) {
    unpin(launch.blocks);
    forget_launch(launch);
    throw;
  }
  launch.sample = times_.begin(kind_of(op, ranges), stream);
  last_kind_ = launch.sample.kind;
  last_launch_ns_ = monotonic_ns();
  running_.push_back(std::move(launch));
  return running_.back().ticket;
}

std::size_t GpuRuntime::launches_here() const {
  return static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), [](const Launch& launch) {
    return launch.thread == std::this_thread::get_id();
  }));
}

void GpuRuntime::forget_launch(const Launch& launch) {
  core_.launches().retire(launch.ticket);
  timelines_->let_go(launch.line);
  changed_.notify_all();
}

bool GpuRuntime::missing(std::span<const BlockIndex> blocks) const {
  return std::any_of(blocks.begin(), blocks.end(),
                     [&](BlockIndex block) { return core_.table()[block].state != BlockState::kResident; });
}

// Whether nothing is under way that could change anything.
bool GpuRuntime::stuck() const {
  return core_.engine().in_flight() == 0 && !core_.has_work() && !queue_.waits() && queue_.on_flash() == 0;
}

// Makes blocks present, or on their way in a stream; waits for what comes from flash or makes room there.
void GpuRuntime::bring(const Turn& turn, Lock& lock, std::span<const BlockIndex> blocks) {
  advance();
  if (!missing(blocks)) return;
  stalls_.begin(monotonic_ns());
  const auto start = std::chrono::steady_clock::now();
  std::string refusal;
  int looks = 0;  // in a row, at which nothing was under way that could help
  for (; refusal.empty() && missing(blocks); changed_.wait_for(lock, kLook)) {
    for (const BlockIndex block : blocks) {
      const BlockState state = core_.table()[block].state;
      if (state == BlockState::kLost) refusal = "lost";
      if (state != BlockState::kResident && !core_.engine().pending(block)) core_.engine().want(block);
    }
    advance();
    if (!device_->failure().empty()) refusal = "device";
    if (!missing(blocks) || !refusal.empty()) break;
    if (turn.may_wait() && rushing_ > 0) {
      let_rush(lock, blocks);
      looks = 0;
      continue;
    }
    looks = stuck() ? looks + 1 : 0;
    const bool others = (!turn.may_wait() && turns_ > 0) || running_.size() > launches_here();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > kFlashMax || (looks > kLooksMax && (!others || waited > kOthersMax))) refusal = "no room";
  }
  stalls_.end(monotonic_ns());
  if (refusal.empty()) return;
  check_device();
  if (refusal == "lost") {
    throw Error(Status::kCorrupt, "what a launch needs cannot be read back from flash in '" + flash_directory_ +
                                      "': its data is lost. Check the disk");
  }
  out_of_frames(blocks.size());
}

// What has been brought so far may leave again for who has a launch open, and comes back when that has what it needs.
void GpuRuntime::let_rush(Lock& lock, std::span<const BlockIndex> blocks) {
  unpin(blocks);
  static_cast<void>(changed_.wait_for(lock, kOthersMax, [&] { return rushing_ == 0; }));
  pin(blocks);
}

// Maps a launch's blocks and lets its stream wait for what has to be over before.
void GpuRuntime::order(Lock& lock, Launch& launch) {
  if (frames_.changing(launch.blocks)) {
    const std::uint64_t start = monotonic_ns();
    mapped_.wait_for(lock, kFlashMax, [&] { return !frames_.changing(launch.blocks); });
    frames_.waited(monotonic_ns() - start);
  }
  if (const Status status = frames_.apply(launch.blocks); status != Status::kOk) fail(status);
  Fences fences;
  launch.frames.reserve(launch.blocks.size());
  for (const BlockIndex block : launch.blocks) {
    launch.frames.push_back(core_.table()[block].frame);
    fences.add(frames_.before(launch.frames.back()));
  }
  if (const Status status = timelines_->wait(launch.line, fences); status != Status::kOk) fail(status);
  check_device();
}

void GpuRuntime::retire(std::uint64_t ticket) noexcept {
  if (ticket == 0 || in_child()) return;
  const Lock lock(mutex_);
  const auto found =
      std::find_if(running_.begin(), running_.end(), [&](const Launch& launch) { return launch.ticket == ticket; });
  if (found == running_.end()) return;
  Launch launch = std::move(*found);
  running_.erase(found);
  unpin(launch.blocks);
  end_launch(launch);
  forget_launch(launch);
}

void GpuRuntime::end_launch(Launch& launch) {
  std::uint64_t mark = 0;
  times_.end(launch.sample, timelines_->stream_of(launch.line));
  if (timelines_->mark(launch.line, mark) != Status::kOk) return;  // the device is lost
  for (const FrameIndex frame : launch.frames) frames_.used(frame, launch.line, mark);
  if (!options_.device_strict && recorder_ == nullptr) return;
  Fences end;
  end.add(launch.line, mark);
  if (timelines_->wait_here(end) != Status::kOk) return;
  if (!options_.device_strict) return;
  std::erase_if(launch.blocks, [&](BlockIndex block) { return core_.table()[block].pins > 0; });
  static_cast<void>(frames_.unmap(launch.blocks));
}

void GpuRuntime::synchronize() {
  check_process();
  const Lock lock(mutex_);
  check_device();
  if (const Status status = timelines_->wait_here(timelines_->all()); status != Status::kOk) fail(status);
}

}  // namespace ebb
