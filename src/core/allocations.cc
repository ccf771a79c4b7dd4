// See allocations.h.
#include "core/allocations.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {

Status Allocations::allocate(std::uint64_t bytes, std::uint64_t& offset) {
  if (bytes > state_.config.space_bytes()) return Status::kNoMemory;
  if (!budget_.has_places(0, bytes / state_.config.block_bytes + 2)) return Status::kNoMemory;
  const auto range = state_.heaps.allocate(bytes, ++state_.serial);
  if (!range) return Status::kNoMemory;
  const BlockRange blocks = state_.blocks_of(range->offset, range->bytes);
  budget_.tables_grew();
  const std::uint32_t fresh = state_.dead(blocks);
  if (!budget_.has_places(fresh, 0)) {
    static_cast<void>(state_.heaps.free(range->offset));
    return Status::kNoMemory;
  }
  state_.live_blocks += fresh;
  state_.engine.retain(blocks);
  ++state_.allocations;
  state_.reused += range->reused ? 1 : 0;
  if (is_huge(blocks)) give_up(*range);
  begin(*range, blocks);
  offset = range->offset;
  return Status::kOk;
}

bool Allocations::is_huge(BlockRange blocks) const { return blocks.count > state_.frames.limit() / 2; }

// What dead content left there has no frames. Of a range that is kept for reuse, its new owner may have written
// already.
void Allocations::give_up(const Heap::Range& range) {
  const BlockRange whole = state_.whole_blocks_of(range.offset, range.bytes);
  for (std::uint32_t i = 0; i < whole.count; ++i) state_.engine.give_up(BlockIndex(whole.first.value() + i));
}

// Memory for a new allocation before the kernel that fills it runs: now as far as it is to be had, the rest in turn.
// Blocks shared with a neighbour may be away with it. Of one that takes most of memory only the beginning: the rest
// would have to leave, with a write, before it is filled.
void Allocations::begin(const Heap::Range& range, BlockRange blocks) {
  state_.stamp(blocks);
  state_.policy.allocated(range.serial, range.bytes, blocks);
  state_.note_peak();
  if (!state_.policy.listens()) return;
  const std::uint32_t frames = state_.frames.limit();
  const std::uint32_t most = is_huge(blocks) ? frames / 8 : blocks.count;
  state_.engine.populate({blocks.first, most});
  for (std::uint32_t i = 0; i < most; ++i) {
    const BlockIndex index(blocks.first.value() + i);
    if (state_.table[index].state != BlockState::kResident) state_.engine.want(index);
  }
}

void Allocations::deallocate(std::uint64_t offset) {
  const Heap::Range range = state_.heaps.free(offset);
  EBB_CHECK(!range.parked);  // freed twice
  state_.policy.freed(range.serial);
  release(range.offset, range.bytes);
}

std::uint64_t Allocations::bytes_of(std::uint64_t offset) const {
  const Heap::Range* range = state_.heaps.find(offset);
  return range == nullptr ? 0 : range->bytes;
}

std::uint64_t Allocations::serial_of(std::uint64_t offset) const {
  const Heap::Range* range = state_.heaps.find(offset);
  return range == nullptr || range->parked ? 0 : range->serial;
}

void Allocations::died(std::uint64_t offset) { state_.policy.freed(state_.heaps.park(offset).serial); }

void Allocations::born(std::uint64_t offset) {
  const Heap::Range range = state_.heaps.unpark(offset, ++state_.serial);
  begin(range, state_.blocks_of(range.offset, range.bytes));
}

std::uint32_t Allocations::turns(std::uint64_t offset) const {
  const Heap::Range* range = state_.heaps.find(offset);
  EBB_CHECK(range != nullptr);
  return range->turns;
}

void Allocations::release(std::uint64_t offset, std::uint64_t bytes) {
  const BlockRange blocks = state_.blocks_of(offset, bytes);
  state_.engine.release(blocks);
  state_.live_blocks -= state_.dead(blocks);
}

std::uint64_t Allocations::bury(std::uint64_t offset) {
  const Heap::Range range = state_.heaps.free(offset);
  EBB_CHECK(range.parked);
  return range.bytes;
}

}  // namespace ebb
