// See budget.h.
#include "core/budget.h"

#include <algorithm>

namespace ebb {
namespace {

// Bytes of page table, pools and queues for one block of the space in use or one extent.
constexpr std::uint64_t kTableBytesEach = sizeof(Block) + 40;
constexpr std::uint32_t kExtentStep = 128;  // extents are made in steps: 256 MiB of blocks of 2 MiB

}  // namespace

void Budget::set_bytes(std::uint64_t bytes) {
  bytes_ = std::min(bytes, most_bytes());
  state_.engine.set_limits(limits_of(state_.config, state_.policy, bytes_));
  apply();
}

std::uint64_t Budget::least_bytes() const {
  const CoreConfig& config = state_.config;
  const std::uint64_t below = std::uint64_t{extents_limit_} + config.host_extents;
  const std::uint64_t needed = state_.live_blocks + 2 > below ? state_.live_blocks + 2 - below : 0;
  const std::uint64_t frames = std::max<std::uint64_t>(needed, FramePool::kFramesMin);
  return frames * config.block_bytes + small_kept_ + std::max(table_bytes() + table_slack(), tables_applied_);
}

void Budget::set_small_bytes(std::uint64_t bytes, std::uint64_t kept) {
  small_bytes_ = bytes;
  if (kept == small_kept_) return;
  small_kept_ = kept;
  apply();
}

void Budget::set_cache_bytes(std::uint64_t bytes) {
  if (bytes == cache_bytes_) return;
  cache_bytes_ = bytes;
  apply();
}

std::uint64_t Budget::resident_bytes() const {
  return state_.frames.created() * state_.config.block_bytes + small_bytes_ + table_bytes();
}

bool Budget::has_places(std::uint64_t blocks, std::uint64_t unused) const {
  const CoreConfig& config = state_.config;
  const std::uint64_t to_come = config.tables_in_budget ? extents_limit_ - state_.extents.capacity() + unused : 0;
  const std::uint64_t tables = table_bytes() + table_slack() + to_come * kTableBytesEach;
  const std::uint32_t frames = frames_beside(std::max(tables, tables_applied_));  // the limit may be behind
  return state_.live_blocks + blocks + 2 <= std::uint64_t{frames} + extents_limit_ + config.host_extents;
}

std::uint64_t Budget::table_bytes_of(std::uint64_t more) const {
  return state_.config.tables_in_budget ? more * (kTableBytesEach + state_.config.cache_bytes_a_block) : 0;
}

bool Budget::tables_fit(std::uint64_t more) const {
  const std::uint64_t frames = FramePool::kFramesMin * state_.config.block_bytes;
  return frames + small_kept_ + table_bytes() + table_slack() + table_bytes_of(more) <= bytes_;
}

bool Budget::prepare(std::uint64_t more) {
  apply(table_bytes_of(more));
  return !over();
}

void Budget::tables_grew(bool now) {
  const std::uint64_t tables = table_bytes();
  if (now || tables + kTableSlackBytes / 2 > tables_applied_ || tables + 2 * kTableSlackBytes < tables_applied_)
    apply();
}

bool Budget::wants_frame_ahead() const {
  const FramePool& frames = state_.frames;
  return frames.created() < state_.config.frames_ahead && frames.room() > 0 && frames.making_ahead() == 0;
}

void Budget::end_frame_ahead(FrameIndex frame, Status status) {
  state_.frames.end_ahead(frame, status);
  if (status != Status::kOk) state_.config.frames_ahead = 0;  // not now: who needs one makes it
}

void Budget::set_flash_bytes(std::uint64_t bytes) {
  const std::uint64_t extents = std::min<std::uint64_t>(bytes / state_.config.block_bytes, extents_most_);
  extents_limit_ = std::max(static_cast<std::uint32_t>(extents), state_.extents.capacity());
}

bool Budget::wants_flash(std::uint64_t blocks) const {
  return extents_limit_ < extents_most_ &&
         (2 * (state_.live_blocks + blocks) + kExtentStep / 2 > extents_limit_ || state_.engine.flash_full());
}

std::uint32_t Budget::extents_wanted() const {
  const ExtentPool& extents = state_.extents;
  if (extents.capacity() >= extents_limit_) return 0;
  // Room for what may be in flight, before it is needed.
  const bool needed = state_.live_blocks + kExtentStep > state_.frames.limit() + state_.config.host_extents &&
                      extents.free(Tier::kFlash) < kExtentStep / 2;
  // The tables of a step take memory, for which frames have to leave before those of the next do.
  const bool owed = owes_extents() && !over();
  if (!needed && !state_.engine.flash_full() && !owed) return 0;
  return std::min(extents_limit_, extents.capacity() + kExtentStep);
}

// For a place each, as has_places() counts them.
std::uint32_t Budget::extents_owed() const {
  const std::uint64_t places = std::uint64_t{state_.frames.limit()} + state_.config.host_extents;
  const std::uint64_t needed = std::uint64_t{state_.live_blocks} + 2;
  return static_cast<std::uint32_t>(needed > places ? needed - places : 0);
}

void Budget::set_extents(std::uint32_t count, bool more_to_come) {
  state_.extents.set_capacity(count);
  if (!more_to_come) extents_limit_ = extents_most_ = count;
  if (state_.extents.free(Tier::kFlash) > 0) state_.engine.extents_added();
  apply();
}

std::uint64_t Budget::table_bytes() const {
  const CoreConfig& config = state_.config;
  if (!config.tables_in_budget) return 0;
  const std::uint64_t blocks = state_.heaps.used_bytes() / config.block_bytes;
  return kFixedBytes + config.buffer_bytes + cache_bytes_ + blocks * config.cache_bytes_a_block +
         (blocks + state_.extents.capacity() + state_.extents.files().size()) * kTableBytesEach;
}

std::uint32_t Budget::frames_beside(std::uint64_t tables) const {
  const CoreConfig& config = state_.config;
  const std::uint64_t other = small_kept_ + tables;
  const std::uint64_t frames = bytes_ > other ? (bytes_ - other) / config.block_bytes : 0;
  const std::uint32_t most = state_.table.frames_max();
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(frames, std::min(FramePool::kFramesMin, most), most));
}

void Budget::apply(std::uint64_t to_come) {
  tables_applied_ = table_bytes() + table_slack() + to_come;
  state_.frames.set_limit(frames_beside(tables_applied_));
  state_.policy.budget(state_.config.block_bytes, state_.frames.limit());
}

}  // namespace ebb
