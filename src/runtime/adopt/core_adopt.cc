// Core: addresses for memory that the program has mapped itself (adopt/managed_runtime_adopt.cc).
#include "base/check.h"
#include "runtime/core.h"

namespace ebb {

Status Core::reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset) {
  // One block more than asked for: some part of the range then has whole blocks enough.
  const std::uint64_t bytes = (std::uint64_t{count} + 1) * config_.block_bytes;
  if (bytes > std::uint64_t{config_.blocks} * config_.block_bytes) return Status::kNoMemory;
  if (!has_places(0, std::uint64_t{count} + 2)) return Status::kNoMemory;
  const auto range = large_heap_.allocate(bytes, ++serial_);
  if (!range) return Status::kNoMemory;
  apply_limit();
  const BlockRange whole{whole_blocks_of(range->offset, range->bytes).first, count};
  const Status status = has_places(count, 0) ? engine_.vacate(whole) : Status::kNoMemory;
  if (status != Status::kOk) {
    static_cast<void>(large_heap_.free(range->offset));
    return status;
  }
  live_blocks_ += count;
  engine_.retain(whole);
  engine_.set_outside(whole, true);
  const std::uint64_t stamp = ++clock_;
  for (BlockIndex i = whole.first; i != whole.end(); i = i.next()) table_[i].last_use = stamp;
  policy_.allocated(range->serial, count * config_.block_bytes, whole);
  ++allocations_;
  note_peak();
  blocks = whole;
  offset = range->offset;
  return Status::kOk;
}

void Core::unreserve(BlockRange blocks, std::uint64_t offset) {
  policy_.freed(large_heap_.free(offset).serial);
  engine_.set_outside(blocks, false);
  engine_.release(blocks);
  live_blocks_ -= new_blocks(blocks);
}

void Core::want(BlockIndex block) {
  engine_.wait_for(block);
  want_ahead(block);
}

void Core::want_ahead(BlockIndex block) {
  table_[block].last_use = ++clock_;
  engine_.want(block);
}

bool Core::adopt(BlockIndex block) {
  table_[block].last_use = ++clock_;
  return engine_.adopt(block);
}

}  // namespace ebb
