// See core.h.
#include "core/core.h"

#include "base/check.h"

namespace ebb {

Core::Core(const Config& config, BackingMemory& memory, std::unique_ptr<Policy> policy)
    : state_(config, memory, std::move(policy)),
      budget_(state_),
      allocations_(state_, budget_),
      adopted_(state_, budget_),
      files_(state_, budget_),
      launches_(state_, files_) {
  set_flash_pace(config.flash_in_ns, config.flash_out_ns, config.flash_both_ns, config.toll_ns);
  budget_.tables_grew(true);
}

void Core::fault(BlockIndex block) {
  launches_.touched(block);
  state_.stamp({block, 1});
  state_.policy.touched(block, state_.clock);
  state_.engine.fault(block);
}

void Core::pump() {
  Engine& engine = state_.engine;
  engine.pump();
  // What there is no room for is not kept for a child, and comes back.
  if (engine.frozen() == 0 || engine.in_flight() > 0 || budget_.extents_wanted() > 0) return;
  engine.give_up_frozen();
  engine.pump();
}

void Core::set_flash_pace(double in_ns, double out_ns, double both_ns, double toll_ns) {
  if (in_ns <= 0) return;
  const Engine::Limits limits = limits_of(state_.config, state_.policy, budget_.bytes());
  Pace pace;
  pace.host_blocks = state_.config.host_extents;
  pace.host_in_ns = state_.config.host_in_ns;
  pace.clean_host = limits.clean_host;
  pace.flash_in_ns = in_ns;
  pace.flash_out_ns = out_ns;
  pace.flash_both_ns = both_ns;
  pace.toll_ns = toll_ns;
  pace.frames_in_transit = limits.reserve + limits.lane;
  state_.policy.set_pace(pace);
}

std::vector<ExtentIndex> Core::snapshot() {
  const std::uint32_t used = state_.extents.used() + state_.extents.files().used();
  std::vector<ExtentIndex> kept;
  kept.reserve(used);
  for (std::uint32_t i = 0; i < state_.table.size() && kept.size() < used; ++i) {
    const Block& block = state_.table[BlockIndex(i)];
    if (!block.extent.valid() || block.owed) continue;
    state_.extents.retain(block.extent);
    kept.push_back(block.extent);
  }
  return kept;
}

void Core::release_snapshot(std::span<const ExtentIndex> extents) {
  for (const ExtentIndex extent : extents) state_.extents.release(extent);
  if (!extents.empty()) state_.engine.extents_added();
}

bool Core::all_here() const {
  const PageTable& table = state_.table;
  return table.count(BlockState::kResident) + table.count(BlockState::kUntouched) == table.size();
}

void Core::fill(Stats& stats) const {
  const std::uint64_t bytes = state_.config.block_bytes;
  const Engine::Counters& counters = state_.engine.counters();
  stats.budget_bytes = budget_.bytes();
  stats.resident_bytes = budget_.resident_bytes();
  stats.small_bytes = budget_.small_bytes();
  stats.live_bytes = state_.heaps.live_bytes();
  stats.peak_live_bytes = state_.peak_live_bytes;
  stats.flash_bytes = state_.extents.used() * bytes;
  stats.flash_limit_bytes = budget_.flash_limit_bytes();
  stats.fetched_bytes = counters.fetched * bytes;
  stats.evicted_bytes = counters.evicted * bytes;
  stats.clean_bytes = counters.clean * bytes;
  stats.prefetched_bytes = counters.prefetched * bytes;
  stats.wasted_bytes = counters.wasted * bytes;
  stats.rewritten_bytes = counters.rewritten * bytes;
  stats.launches = launches_.count();
  stats.rescues = counters.rescues;
  stats.allocations = state_.allocations;
  stats.reused = state_.reused;
  stats.io_errors = counters.io_errors;
  stats.corrupt_blocks = counters.corrupt;
  stats.deviations = state_.policy.deviations();
  stats.guided = state_.policy.guided();
}

void Core::validate() {
  state_.engine.validate();
  state_.heaps.validate();
  state_.policy.validate();
  std::uint32_t live = 0;
  for (std::uint32_t i = 0; i < state_.table.size(); ++i) live += state_.table[BlockIndex(i)].live > 0 ? 1 : 0;
  EBB_CHECK_EQ(live, state_.live_blocks + state_.mapped_blocks);
}

}  // namespace ebb
