// See state.h.
#include "core/state.h"

#include <algorithm>

#include "base/check.h"
#include "core/budget.h"

namespace ebb {

Engine::Limits limits_of(const CoreConfig& config, const Policy& policy, std::uint64_t budget_bytes) {
  const std::uint32_t frames = config.frames(budget_bytes);
  Engine::Limits limits;
  limits.in_flight = std::clamp<std::uint32_t>(frames / 4, 2, config.queue_depth);
  limits.lane = std::max<std::uint32_t>(limits.in_flight / (config.host_extents > 0 ? 4 : 2), 1);
  limits.keep_pinned = !config.faults;
  limits.clean_host = config.faults || config.host_notes;
  limits.clean_to_host = config.faults;  // a GPU's copies are over, for the engine, as soon as they have been started
  limits.reserve = policy.listens() ? std::clamp<std::uint32_t>(frames / 32, 1, 16) : 0;
  limits.read_ahead = policy.listens() ? std::clamp<std::uint32_t>(frames / 32, 0, 16) : 0;
  return limits;
}

std::uint32_t CoreConfig::frames(std::uint64_t of) const {
  const std::uint64_t tables = tables_in_budget ? Budget::kTableBytesMin + buffer_bytes : 0;
  const std::uint64_t bytes = of > tables ? of - tables : 0;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes / block_bytes, FramePool::kFramesMin, std::uint64_t{1} << 26));
}

CoreState::CoreState(const CoreConfig& given, BackingMemory& memory, std::unique_ptr<Policy> of_program)
    : config(given),
      policy(std::move(of_program)),
      table(config.blocks, config.frames(), config.host_extents),
      frames(memory, config.frames(), !config.faults),
      extents(config.extents, config.host_extents),
      engine(table, frames, extents, memory, policy, limits_of(config, policy, config.budget_bytes)),
      heaps(config.blocks, config.block_bytes, config.blocks_beyond) {}

BlockRange CoreState::blocks_of(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t first = offset / config.block_bytes;
  const std::uint64_t last = (offset + std::max<std::uint64_t>(bytes, 1) - 1) / config.block_bytes;
  EBB_CHECK_LT(last, table.size());
  return {BlockIndex(static_cast<std::uint32_t>(first)), static_cast<std::uint32_t>(last - first + 1)};
}

BlockRange CoreState::whole_blocks_of(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t first = (offset + config.block_bytes - 1) / config.block_bytes;
  const std::uint64_t end = (offset + bytes) / config.block_bytes;
  if (end <= first) return {};
  EBB_CHECK_LE(end, table.size());
  return {BlockIndex(static_cast<std::uint32_t>(first)), static_cast<std::uint32_t>(end - first)};
}

void CoreState::stamp(BlockRange blocks) {
  const std::uint64_t now = ++clock;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) table[i].last_use = now;
}

std::uint32_t CoreState::dead(BlockRange blocks) const {
  std::uint32_t count = 0;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) count += table[i].live == 0 ? 1 : 0;
  return count;
}

void CoreState::note_peak() {
  const std::uint64_t live = heaps.live_bytes() - heaps.parked_bytes();
  const std::uint64_t mapped = std::uint64_t{mapped_blocks} * config.block_bytes;
  peak_live_bytes = std::max(peak_live_bytes, live);
  peak_bytes = std::max(peak_bytes, live - std::min(live, mapped));
}

}  // namespace ebb
