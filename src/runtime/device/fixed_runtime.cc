// See fixed_runtime.h.
#include "runtime/device/fixed_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "ebb/units.h"

namespace ebb {
namespace {

constexpr std::size_t kAlignment = 512;  // what CUDA's own allocations have, and kernels rely on

}  // namespace

FixedRuntime::FixedRuntime(const Options& options, std::unique_ptr<FixedDevice> device,
                           std::unique_ptr<Timelines> timelines)
    : options_(options),
      device_(std::move(device)),
      timelines_(std::move(timelines)),
      areas_{Area{device_->memory().data(), device_->memory().size(), Heap(0, device_->memory().size(), 0)},
             Area{device_->host().data(), device_->host().size(), Heap(0, device_->host().size(), 0)}},
      process_(::getpid()) {
  stats_file_.open(options.stats_path, policy(), description());
}

FixedRuntime::~FixedRuntime() {
  if (in_child()) {
    // A child has not the device: its handles are forgotten.
    static_cast<void>(timelines_.release());
    static_cast<void>(device_.release());
    return;
  }
  stats_file_.update(read_stats());
  static_cast<void>(timelines_->wait_here(timelines_->all()));
}

bool FixedRuntime::in_child() const { return ::getpid() != process_; }

void FixedRuntime::check_process() const {
  if (in_child()) {
    throw Error(Status::kUnsupported,
                "a forked process cannot use the GPU of its parent: start workers with spawn or forkserver");
  }
}

void FixedRuntime::check_device() const {
  if (!device_->failure().empty()) throw Error(Status::kIoError, device_->failure());
}

void FixedRuntime::out_of_memory(std::size_t bytes) const {
  const Stats now = read_stats();
  throw Error(Status::kNoMemory, "out of memory: " + format_size(bytes) + " asked for, with " +
                                     format_size(now.live_bytes) + " of tensors alive, in " +
                                     format_size(areas_[0].bytes) + " of GPU memory and " +
                                     format_size(areas_[1].bytes) +
                                     " of host memory, where they stay: the GPU or its driver has no virtual " +
                                     "memory API. Give it more of one of them (--device-memory, --memory).");
}

// Takes back what nothing uses any more.
void FixedRuntime::collect() {
  std::erase_if(freed_, [&](const Freed& freed) {
    if (!timelines_->done(freed.until)) return false;
    areas_[freed.area].heap.free(freed.offset);
    return true;
  });
}

// Null: no area has room.
std::byte* FixedRuntime::take(std::size_t bytes) {
  for (std::size_t i = 0; i < areas_.size(); ++i) {
    if (bytes > areas_[i].bytes) continue;
    const auto range = areas_[i].heap.allocate(bytes, ++serials_);
    if (!range) continue;
    std::byte* const data = areas_[i].base + range->offset;
    live_[data] = {i, range->bytes, {}};
    return data;
  }
  return nullptr;
}

void* FixedRuntime::allocate(std::size_t bytes) {
  check_process();
  const Lock lock(mutex_);
  check_device();
  if (bytes > std::max(areas_[0].bytes, areas_[1].bytes)) out_of_memory(bytes);
  const std::size_t rounded = std::max<std::size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
  collect();
  std::byte* data = take(rounded);
  while (data == nullptr && !freed_.empty()) {
    if (timelines_->wait_here(freed_.front().until) == Status::kBusy) {
      throw Error(Status::kIoError, "the GPU has not finished what it was given in half an hour: a kernel hangs");
    }
    check_device();
    collect();
    data = take(rounded);
  }
  if (data == nullptr) out_of_memory(bytes);
  ++stats_.allocations;
  stats_.live_bytes += live_.find(data)->second.bytes;
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
  return data;
}

std::span<std::byte> FixedRuntime::adopt(std::span<std::byte>) {
  throw Error(
      Status::kUnsupported,
      "a runtime over a GPU cannot adopt memory of the host: allocate from it and copy, or open a runtime without "
      "a device");
}

void FixedRuntime::deallocate_on(void* data, Stream stream) noexcept {
  if (data == nullptr || in_child()) return;
  const Lock lock(mutex_);
  const auto found = live_.find(static_cast<const std::byte*>(data));
  if (found == live_.end()) return;
  // Work that uses it may have been started since the last mark: in this stream, and in open launches.
  Freed freed{found->second.area, 0, found->second.uses};
  freed.offset = static_cast<std::uint64_t>(found->first - areas_[freed.area].base);
  std::array<bool, Fences::kLinesMax> lines{};
  if (const std::uint32_t line = timelines_->line_of(stream); line != Timelines::kNone) lines[line] = true;
  for (const Launch& launch : running_) lines[launch.line] = true;
  for (std::uint32_t line = 0; line < lines.size(); ++line) {
    std::uint64_t mark = 0;
    if (lines[line] && timelines_->mark(line, mark) == Status::kOk) freed.until.add(line, mark);
  }
  stats_.live_bytes -= found->second.bytes;
  live_.erase(found);
  freed_.push_back(freed);
}

void FixedRuntime::unpin_on(Stream stream, std::span<const void* const> allocations) noexcept {
  if (in_child()) return;
  const Lock lock(mutex_);
  const std::uint32_t line = timelines_->line_of(stream);
  std::uint64_t mark = 0;
  if (line == Timelines::kNone || timelines_->mark(line, mark) != Status::kOk) return;
  for (const void* const data : allocations) {
    const auto found = live_.find(static_cast<const std::byte*>(data));
    if (found != live_.end()) found->second.uses.add(line, mark);
  }
}

bool FixedRuntime::manages(const void* data) const noexcept {
  return std::ranges::any_of(areas_, [&](const Area& area) {
    const auto* const at = static_cast<const std::byte*>(data);
    return at >= area.base && at < area.base + area.bytes;
  });
}

// The allocations that accesses lie in; others are nobody's business here.
void FixedRuntime::use(std::span<const Access> accesses, std::vector<const std::byte*>& allocations) const {
  for (const Access& access : accesses) {
    const auto* const at = static_cast<const std::byte*>(access.data);
    auto found = live_.upper_bound(at + (access.bytes > 0 ? access.bytes - 1 : 0));
    while (found != live_.begin()) {
      --found;
      if (found->first + found->second.bytes <= at) break;
      allocations.push_back(found->first);
    }
  }
}

std::uint64_t FixedRuntime::announce(std::uint64_t op, std::span<const Access> accesses) noexcept {
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

std::uint64_t FixedRuntime::announce_on(Stream stream, std::uint64_t, std::span<const Access> accesses) {
  check_process();
  Launch launch;
  const Lock lock(mutex_);
  check_device();
  use(accesses, launch.allocations);
  if (launch.allocations.empty()) return 0;
  launch.line = timelines_->line_of(stream);
  if (launch.line == Timelines::kNone || !timelines_->hold(launch.line)) {
    throw Error(Status::kInvalid, "launches are open in too many streams at once: retire some, at most " +
                                      std::to_string(Fences::kLinesMax - 3) + " streams may have any");
  }
  launch.ticket = ++tickets_;
  ++stats_.launches;
  running_.push_back(std::move(launch));
  return tickets_;
}

void FixedRuntime::retire(std::uint64_t ticket) noexcept {
  if (ticket == 0 || in_child()) return;
  const Lock lock(mutex_);
  const auto launch = std::ranges::find(running_, ticket, &Launch::ticket);
  if (launch == running_.end()) return;
  std::uint64_t mark = 0;
  if (timelines_->mark(launch->line, mark) == Status::kOk) {
    for (const std::byte* const data : launch->allocations) {
      if (const auto found = live_.find(data); found != live_.end()) found->second.uses.add(launch->line, mark);
    }
  }
  timelines_->let_go(launch->line);
  running_.erase(launch);
}

void FixedRuntime::step() noexcept {
  if (in_child()) return;
  const Lock lock(mutex_);
  const std::uint64_t now = monotonic_ns();
  if (last_step_ns_ != 0) stats_file_.add_step(static_cast<double>(now - last_step_ns_) * 1e-9);
  last_step_ns_ = now;
  ++stats_.steps;
  stats_file_.update(read_stats());
}

void FixedRuntime::synchronize() {
  check_process();
  const Lock lock(mutex_);
  check_device();
  if (timelines_->wait_here(timelines_->all()) == Status::kBusy) {
    throw Error(Status::kIoError, "the GPU has not finished what it was given in half an hour: a kernel hangs");
  }
  check_device();
}

std::string FixedRuntime::failure() const {
  if (in_child()) return "a forked process cannot use the GPU of its parent";
  const Lock lock(mutex_);
  return device_->failure().empty() ? refused_ : device_->failure();
}

Stats FixedRuntime::read_stats() const {
  Stats stats = stats_;
  stats.budget_bytes = areas_[0].bytes + areas_[1].bytes;
  for (const Area& area : areas_) stats.resident_bytes += area.heap.live_bytes();
  stats.peak_resident_bytes = stats_.peak_live_bytes;
  return stats;
}

Stats FixedRuntime::stats() const {
  if (in_child()) return {};
  const Lock lock(mutex_);
  return read_stats();
}

std::vector<double> FixedRuntime::step_seconds() const { return stats_file_.step_seconds(); }

std::string FixedRuntime::description() const {
  return device_->description() + ", then " + format_size(areas_[1].bytes) +
         " of host memory that it reads over the bus: without the virtual memory API tensors keep their place, and "
         "flash is not used";
}

}  // namespace ebb
