// See adopted_ranges.h.
#include "core/adopted_ranges.h"

namespace ebb {

Status AdoptedRanges::reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset) {
  const std::uint64_t bytes = std::uint64_t{count} * state_.config.block_bytes;
  if (bytes > state_.config.space_bytes()) return Status::kNoMemory;
  if (!budget_.has_places(0, std::uint64_t{count} + 1)) return Status::kNoMemory;
  const auto range = state_.heaps.allocate(bytes, ++state_.serial);
  if (!range) return Status::kNoMemory;
  budget_.tables_grew(true);
  const BlockRange whole = state_.blocks_of(range->offset, range->bytes);
  const Status status = budget_.has_places(count, 0) ? state_.engine.vacate(whole) : Status::kNoMemory;
  if (status != Status::kOk) {
    static_cast<void>(state_.heaps.free(range->offset));
    return status;
  }
  state_.live_blocks += count;
  state_.engine.retain(whole);
  state_.engine.set_outside(whole, true);
  state_.stamp(whole);
  state_.policy.allocated(range->serial, count * state_.config.block_bytes, whole);
  ++state_.allocations;
  state_.note_peak();
  blocks = whole;
  offset = range->offset;
  return Status::kOk;
}

void AdoptedRanges::unreserve(BlockRange blocks, std::uint64_t offset) {
  state_.policy.freed(state_.heaps.free(offset).serial);
  state_.engine.set_outside(blocks, false);
  state_.engine.release(blocks);
  state_.live_blocks -= state_.dead(blocks);
}

void AdoptedRanges::want(BlockIndex block) {
  state_.engine.wait_for(block);
  want_ahead(block);
}

void AdoptedRanges::want_ahead(BlockIndex block) {
  state_.stamp({block, 1});
  state_.engine.want(block);
}

bool AdoptedRanges::adopt(BlockIndex block) {
  state_.stamp({block, 1});
  return state_.engine.adopt(block);
}

}  // namespace ebb
