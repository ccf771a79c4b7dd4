// GpuRuntime: allocations that are there at once and stay, for work that announces nothing: what an operator allocates
// while it runs, and what a library keeps for its kernels.
#include <algorithm>

#include "base/check.h"
#include "runtime/device/gpu_runtime.h"

namespace ebb {
namespace {

std::vector<BlockIndex> list_of(BlockRange range) {
  std::vector<BlockIndex> blocks;
  blocks.reserve(range.count);
  for (BlockIndex i = range.first; i != range.end(); i = i.next()) blocks.push_back(i);
  return blocks;
}

}  // namespace

void GpuRuntime::pin(std::span<const BlockIndex> blocks) {
  for (const BlockIndex block : blocks) core_.engine().pin(block);
}

void GpuRuntime::unpin(std::span<const BlockIndex> blocks) {
  for (const BlockIndex block : blocks) core_.engine().unpin(block);
}

// What the line's stream has been given until now may use the frames under these blocks.
bool GpuRuntime::mark_uses(std::uint32_t line, std::span<const BlockRange> ranges) {
  std::uint64_t mark = 0;
  if (line == Timelines::kNone || timelines_->mark(line, mark) != Status::kOk) return false;
  for (const BlockRange range : ranges) {
    for (BlockIndex i = range.first; i != range.end(); i = i.next()) {
      if (const FrameIndex frame = core_.table()[i].frame; frame.valid()) frames_.used(frame, line, mark);
    }
  }
  return true;
}

void* GpuRuntime::allocate_on(Stream stream, std::size_t bytes) {
  check_process();
  Lock lock(mutex_);
  const Turn turn(*this, lock);
  const std::uint64_t offset = take(bytes);
  const BlockRange range = core_.blocks_of(offset, core_.allocations().bytes_of(offset));
  const std::vector<BlockIndex> blocks = list_of(range);
  pin(blocks);
  try {
    bring(turn, lock, blocks);
    Launch ready;  // no launch, but made ready as one
    ready.line = timelines_->line_of(stream);
    if (ready.line == Timelines::kNone) throw Error(Status::kInvalid, "launches are open in too many streams at once");
    ready.blocks = blocks;
    order(lock, ready);
  } catch (...) {
    unpin(blocks);
    core_.allocations().deallocate(offset);
    throw;
  }
  EBB_CHECK(pinned_.emplace(offset, range).second);
  return device_->base() + offset;
}

void GpuRuntime::unpin_on(Stream stream, std::span<const void* const> allocations) noexcept {
  if (in_child()) return;
  const Lock lock(mutex_);
  std::vector<BlockRange> ranges;
  for (const void* data : allocations) {
    const auto found = pinned_.find(offset_of(data));
    if (found != pinned_.end()) ranges.push_back(found->second);
  }
  if (ranges.empty()) return;
  static_cast<void>(mark_uses(timelines_->line_of(stream), ranges));
  for (const void* data : allocations) drop_pin(offset_of(data));
  if (!options_.device_strict || timelines_->wait_here(timelines_->all()) != Status::kOk) return;
  std::vector<BlockIndex> blocks;
  for (const BlockRange range : ranges) {
    for (const BlockIndex block : list_of(range)) {
      if (core_.table()[block].pins == 0) blocks.push_back(block);
    }
  }
  static_cast<void>(frames_.unmap(blocks));
}

void GpuRuntime::use_on(Stream stream, const void* data) noexcept {
  if (data == nullptr || in_child()) return;
  const Lock lock(mutex_);
  const std::uint64_t offset = offset_of(data);
  const BlockRange blocks = core_.blocks_of(offset, core_.allocations().bytes_of(offset));
  static_cast<void>(mark_uses(timelines_->line_of(stream), {&blocks, 1}));
}

void GpuRuntime::drop_pin(std::uint64_t offset) {
  const auto found = pinned_.find(offset);
  if (found == pinned_.end()) return;
  unpin(list_of(found->second));
  pinned_.erase(found);
  changed_.notify_all();
}

}  // namespace ebb
