// See core.h.
#include "runtime/core.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "ebb/units.h"

namespace ebb {
namespace {

// Bytes of page table, pools and queues for one block of the space in use or one extent.
constexpr std::uint64_t kTableBytesEach = sizeof(Block) + 40;
// Tables of a fixed size, and the staging that a driver may need.
constexpr std::uint64_t kFixedBytes = 192 * kKiB;
constexpr std::uint64_t kTableSlackBytes = 64 * kKiB;
constexpr std::uint32_t kExtentStep = 128;  // extents are made in steps: 256 MiB of blocks of 2 MiB

Engine::Limits limits_of(const Core::Config& config, const Policy& policy) {
  const std::uint32_t frames = Core::frames_of(config);
  Engine::Limits limits;
  limits.in_flight = std::clamp<std::uint32_t>(frames / 4, 2, config.queue_depth);
  limits.lane = std::max<std::uint32_t>(limits.in_flight / (config.host_extents > 0 ? 4 : 2), 1);
  limits.keep_pinned = !config.faults;
  limits.clean_host = config.faults;  // a GPU's copies to host memory are not hashed
  limits.reserve = policy.listens() ? std::clamp<std::uint32_t>(frames / 32, 1, 16) : 0;
  limits.read_ahead = policy.listens() ? std::clamp<std::uint32_t>(frames / 32, 0, 8) : 0;
  return limits;
}

// Freed ranges may wait for their like until they hold this much.
std::uint64_t waiting_bytes_max(const Core::Config& config) { return config.budget_bytes / 8; }

std::uint64_t space_bytes(const Core::Config& config) { return config.blocks * config.block_bytes; }

}  // namespace

std::uint32_t Core::frames_of(const Config& config) {
  const std::uint64_t tables = config.tables_in_budget ? kFixedBytes + kTableSlackBytes : 0;
  const std::uint64_t bytes = config.budget_bytes > tables ? config.budget_bytes - tables : 0;
  const std::uint64_t frames = bytes / config.block_bytes;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(frames, kFramesMin, 1u << 26));
}

Heap Core::small_heap_of(const Config& config) { return {0, space_bytes(config) / 4, waiting_bytes_max(config)}; }

Heap Core::large_heap_of(const Config& config) {
  return {space_bytes(config) / 4, space_bytes(config), waiting_bytes_max(config)};
}

Core::Core(const Config& config, BackingMemory& memory, std::unique_ptr<Policy> policy)
    : config_(config),
      policy_(std::move(policy)),
      table_(config.blocks, frames_of(config), config.host_extents),
      frames_(memory, frames_of(config)),
      extents_(config.extents, config.host_extents),
      engine_(table_, frames_, extents_, memory, policy_, limits_of(config, policy_)),
      small_heap_(small_heap_of(config)),
      large_heap_(large_heap_of(config)),
      extents_limit_(config.extents) {
  EBB_CHECK_EQ(config.blocks % 4, 0u);
  running_.reserve(256);
  set_flash_pace(config.flash_in_ns, config.flash_out_ns, config.flash_both_ns);
  apply_limit();
}

BlockRange Core::blocks_of(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t first = offset / config_.block_bytes;
  const std::uint64_t last = (offset + std::max<std::uint64_t>(bytes, 1) - 1) / config_.block_bytes;
  EBB_CHECK_LT(last, table_.size());
  return {BlockIndex(static_cast<std::uint32_t>(first)), static_cast<std::uint32_t>(last - first + 1)};
}

BlockRange Core::whole_blocks_of(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t first = (offset + config_.block_bytes - 1) / config_.block_bytes;
  const std::uint64_t end = (offset + bytes) / config_.block_bytes;
  if (end <= first) return {};
  EBB_CHECK_LE(end, table_.size());
  return {BlockIndex(static_cast<std::uint32_t>(first)), static_cast<std::uint32_t>(end - first)};
}

std::uint32_t Core::new_blocks(BlockRange blocks) const {
  std::uint32_t count = 0;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) count += table_[i].live == 0 ? 1 : 0;
  return count;
}

Status Core::allocate(std::uint64_t bytes, std::uint64_t& offset) {
  if (bytes > space_bytes(config_)) return Status::kNoMemory;
  if (!has_places(0, bytes / config_.block_bytes + 2)) return Status::kNoMemory;
  Heap& heap = bytes < config_.block_bytes / 2 ? small_heap_ : large_heap_;
  const auto range = heap.allocate(bytes, ++serial_);
  if (!range) return Status::kNoMemory;
  const BlockRange blocks = blocks_of(range->offset, range->bytes);
  if (table_bytes() + kTableSlackBytes / 2 > tables_applied_) apply_limit();
  const std::uint32_t fresh = new_blocks(blocks);
  if (!has_places(fresh, 0)) {
    static_cast<void>(heap.free(range->offset));
    return Status::kNoMemory;
  }
  live_blocks_ += fresh;
  engine_.retain(blocks);
  const std::uint64_t stamp = ++clock_;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) table_[i].last_use = stamp;
  policy_.allocated(range->serial, range->bytes, blocks);
  if (policy_.listens()) populate(blocks);
  ++allocations_;
  reused_ += range->reused ? 1 : 0;
  note_peak();
  offset = range->offset;
  return Status::kOk;
}

// Whether so many blocks more have a place each even when nothing else can leave, a frame or an extent: also once the
// tables of all extents, and of so much of the space that nobody has used yet, have taken their part of the budget.
bool Core::has_places(std::uint64_t blocks, std::uint64_t unused) const {
  const std::uint64_t to_come = config_.tables_in_budget ? extents_limit_ - extents_.capacity() + unused : 0;
  const std::uint32_t frames = frames_beside(table_bytes() + table_slack() + to_come * kTableBytesEach);
  return live_blocks_ + blocks + 2 <= std::uint64_t{frames} + extents_limit_ + config_.host_extents;
}

// Memory for a new allocation before the kernel that fills it runs: now as far as it is to be had, the rest in turn; of
// a huge allocation only the beginning. Blocks shared with a neighbour may be away with it.
void Core::populate(BlockRange blocks) {
  engine_.populate(blocks);
  const std::uint32_t most = std::min(blocks.count, frames_.limit() / 2);
  for (std::uint32_t i = 0; i < most; ++i) {
    const BlockIndex index(blocks.first.value() + i);
    if (table_[index].state != BlockState::kResident) engine_.want(index);
  }
}

void Core::deallocate(std::uint64_t offset) {
  const Heap::Range range = heap_of(offset).free(offset);
  EBB_CHECK(!range.parked);  // freed twice
  const BlockRange blocks = blocks_of(range.offset, range.bytes);
  policy_.freed(range.serial);
  engine_.release(blocks);
  live_blocks_ -= new_blocks(blocks);
}

void Core::died(std::uint64_t offset) { policy_.freed(heap_of(offset).park(offset).serial); }

void Core::born(std::uint64_t offset) {
  const Heap::Range range = heap_of(offset).unpark(offset, ++serial_);
  const BlockRange blocks = blocks_of(range.offset, range.bytes);
  const std::uint64_t stamp = ++clock_;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) table_[i].last_use = stamp;
  policy_.allocated(range.serial, range.bytes, blocks);
  if (policy_.listens()) populate(blocks);
  note_peak();
}

std::uint32_t Core::turns(std::uint64_t offset) const {
  const Heap::Range* range = heap_of(offset).find(offset);
  EBB_CHECK(range != nullptr);
  return range->turns;
}

void Core::release(std::uint64_t offset, std::uint64_t bytes) {
  const BlockRange blocks = blocks_of(offset, bytes);
  engine_.release(blocks);
  live_blocks_ -= new_blocks(blocks);
}

std::uint64_t Core::bury(std::uint64_t offset) {
  const Heap::Range range = heap_of(offset).free(offset);
  EBB_CHECK(range.parked);
  return range.bytes;
}

bool Core::all_here() const {
  return table_.count(BlockState::kResident) + table_.count(BlockState::kUntouched) == table_.size();
}

void Core::set_cache_bytes(std::uint64_t bytes) {
  if (bytes == cache_bytes_) return;
  cache_bytes_ = bytes;
  apply_limit();
}

void Core::note_peak() {
  const std::uint64_t live = small_heap_.live_bytes() + large_heap_.live_bytes();
  peak_live_bytes_ = std::max(peak_live_bytes_, live - small_heap_.parked_bytes() - large_heap_.parked_bytes());
}

std::uint64_t Core::allocation_bytes(std::uint64_t offset) const {
  const Heap::Range* range = heap_of(offset).find(offset);
  return range == nullptr ? 0 : range->bytes;
}

std::uint64_t Core::expect(std::span<const Range> ranges) {
  if (!policy_.listens()) return 0;
  parts_.clear();
  for (const Range& range : ranges) {
    const BlockRange blocks = blocks_of(range.offset, range.bytes);
    const BlockRange whole = range.overwritten ? whole_blocks_of(range.offset, range.bytes) : BlockRange{};
    if (whole.count == 0) {
      parts_.push_back({blocks, false});
      continue;
    }
    // At either end there may be a block of which something stays.
    const std::uint32_t before = whole.first.value() - blocks.first.value();
    if (before > 0) parts_.push_back({{blocks.first, before}, false});
    parts_.push_back({whole, true});
    if (before + whole.count < blocks.count) parts_.push_back({{whole.end(), 1}, false});
  }
  return policy_.expect(parts_);
}

std::uint64_t Core::announce(std::uint64_t op, std::span<const Range> ranges) {
  const std::uint64_t ticket = ++clock_;
  if (!policy_.listens()) return ticket;
  ++launches_;
  running_.push_back(ticket);
  update_pins();
  touches_.clear();
  std::uint64_t needed = 0;
  for (const Range& range : ranges) {
    const BlockRange blocks = blocks_of(range.offset, range.bytes);
    needed += blocks.count;
    if (!long_launches_.empty()) notice_progress(blocks.first);
    if (range.overwritten) {
      const BlockRange whole = whole_blocks_of(range.offset, range.bytes);
      for (BlockIndex i = whole.first; whole.count > 0 && i != whole.end(); i = i.next()) engine_.forsake(i);
    }
    if (!range.in_allocation) continue;
    if (const Heap::Range* found = heap_of(range.allocation).find(range.allocation); found != nullptr) {
      touches_.push_back({found->serial, range.bytes, blocks, range.written});
    }
  }
  find_step(op);
  if (config_.faults && needed > frames_.limit() - frames_.limit() / 4) {
    announce_long(ticket, ranges);
  } else {
    announce_short(ticket, ranges);
  }
  policy_.launched(op, touches_);
  return ticket;
}

void Core::announce_short(std::uint64_t ticket, std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    const BlockRange blocks = blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      Block& block = table_[i];
      block.last_use = ticket;
      if (block.state == BlockState::kResident) {
        block.prefetched = false;
      } else {
        engine_.want(i);
      }
    }
  }
}

// Larger than memory: its beginning is wanted now, the rest as it proceeds. What it needs later is worth less.
void Core::announce_long(std::uint64_t ticket, std::span<const Range> ranges) {
  LongLaunch launch(ticket, frames_.limit());
  for (const Range& range : ranges) launch.add(blocks_of(range.offset, range.bytes), range.group);
  clock_ += launch.size();
  for (std::uint32_t i = 0; i < launch.size(); ++i) table_[launch.block(i)].last_use = launch.stamp(i);
  advance(long_launches_.emplace_back(std::move(launch)), 0);
}

void Core::notice_progress(BlockIndex block) {
  for (LongLaunch& launch : long_launches_) {
    const std::uint32_t position = launch.find(block);
    if (position != LongLaunch::kNone) advance(launch, position);
  }
}

// A long launch has come to `position`: what is behind may leave, the next part is wanted.
void Core::advance(LongLaunch& launch, std::uint32_t position) {
  const LongLaunch::Step step = launch.advance(position);
  for (std::uint32_t i = step.behind_first; i < step.behind_end; ++i) {
    Block& block = table_[launch.block(i)];
    if (block.last_use == launch.stamp(i)) block.last_use = launch.ticket() - 1;
  }
  for (std::uint32_t i = step.wanted_first; i < step.wanted_end; ++i) {
    const BlockIndex index = launch.block(i);
    if (table_[index].state != BlockState::kResident) engine_.want(index);
    if (launch.is_marker(i)) engine_.hold(index);
  }
}

bool Core::launch_pending(std::uint64_t ticket, std::span<const Range> ranges) const {
  for (const LongLaunch& launch : long_launches_) {
    if (launch.ticket() != ticket) continue;
    for (std::uint32_t i = 0; i < launch.start_size(); ++i) {
      if (table_[launch.block(i)].state != BlockState::kResident && engine_.pending(launch.block(i))) return true;
    }
    return false;
  }
  return pending(ranges);
}

void Core::retire(std::uint64_t ticket) {
  const auto found = std::find(running_.rbegin(), running_.rend(), ticket);
  if (found == running_.rend()) return;
  running_.erase(std::next(found).base());
  update_pins();
  std::erase_if(long_launches_, [&](const LongLaunch& launch) {
    if (launch.ticket() != ticket) return false;
    for (std::uint32_t i = 0; i < launch.size(); ++i) engine_.let_go(launch.block(i));
    return true;
  });
}

void Core::update_pins() {
  engine_.set_pinned_from(running_.empty() ? std::numeric_limits<std::uint64_t>::max() : running_.front());
}

bool Core::pending(std::span<const Range> ranges) const {
  for (const Range& range : ranges) {
    const BlockRange blocks = blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (table_[i].state != BlockState::kResident && engine_.pending(i)) return true;
    }
  }
  return false;
}

bool Core::lost(std::span<const Range> ranges) const {
  if (table_.count(BlockState::kLost) == 0) return false;
  for (const Range& range : ranges) {
    const BlockRange blocks = blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (table_[i].state == BlockState::kLost) return true;
    }
  }
  return false;
}

void Core::step() {
  steps_are_told_ = true;
  policy_.step();
}

void Core::set_flash_pace(double in_ns, double out_ns, double both_ns) {
  if (in_ns <= 0) return;
  const Engine::Limits limits = limits_of(config_, policy_);
  Pace pace;
  pace.host_blocks = config_.host_extents;
  pace.host_in_ns = config_.host_in_ns;
  pace.clean_host = limits.clean_host;
  pace.flash_in_ns = in_ns;
  pace.flash_out_ns = out_ns;
  pace.flash_both_ns = both_ns;
  pace.frames_in_transit = limits.reserve + limits.lane;
  policy_.set_pace(pace);
}

void Core::find_step(std::uint64_t op) {
  if (!steps_are_told_ && !touches_.empty() && period_.begins(op, touches_, serial_)) policy_.step();
}

void Core::fault(BlockIndex block) {
  notice_progress(block);
  table_[block].last_use = ++clock_;
  engine_.fault(block);
}

bool Core::wants_frame_ahead() const {
  return frames_.created() < config_.frames_ahead && frames_.room() > 0 && frames_.making_ahead() == 0;
}

std::uint32_t Core::extents_wanted() const {
  if (extents_.capacity() >= extents_limit_) return 0;
  // Room for what may be in flight, before it is needed.
  const bool needed = live_blocks_ + kExtentStep > frames_.limit() + config_.host_extents &&
                      extents_.free(Tier::kFlash) < kExtentStep / 2;
  if (!needed && !engine_.flash_full()) return 0;
  return std::min(extents_limit_, extents_.capacity() + kExtentStep);
}

void Core::set_extents(std::uint32_t count, bool more_to_come) {
  extents_.set_capacity(count);
  if (!more_to_come) extents_limit_ = count;
  if (extents_.free(Tier::kFlash) > 0) engine_.extents_added();
  apply_limit();
}

void Core::set_small_bytes(std::uint64_t bytes, std::uint64_t kept) {
  small_bytes_ = bytes;
  if (kept == small_kept_) return;
  small_kept_ = kept;
  apply_limit();
}

std::uint64_t Core::table_bytes() const {
  const std::uint64_t blocks =
      (small_heap_.frontier() + large_heap_.frontier() - space_bytes(config_) / 4) / config_.block_bytes;
  if (!config_.tables_in_budget) return 0;
  return kFixedBytes + cache_bytes_ + blocks * config_.cache_bytes_a_block +
         (blocks + extents_.capacity()) * kTableBytesEach;
}

std::uint64_t Core::table_slack() const { return config_.tables_in_budget ? kTableSlackBytes : 0; }

std::uint32_t Core::frames_beside(std::uint64_t tables) const {
  const std::uint64_t other = small_kept_ + tables;
  const std::uint64_t frames = config_.budget_bytes > other ? (config_.budget_bytes - other) / config_.block_bytes : 0;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(frames, std::min(kFramesMin, table_.frames_max()), table_.frames_max()));
}

void Core::apply_limit() {
  // Tables grow between two looks at them, by less than the slack.
  tables_applied_ = table_bytes() + table_slack();
  frames_.set_limit(frames_beside(tables_applied_));
  policy_.budget(config_.block_bytes, frames_.limit());
}

void Core::pump() {
  engine_.pump();
  // What there is no room for is not kept for a child, and comes back.
  if (engine_.frozen() == 0 || engine_.in_flight() > 0 || extents_wanted() > 0) return;
  engine_.give_up_frozen();
  engine_.pump();
}

std::vector<ExtentIndex> Core::snapshot() {
  std::vector<ExtentIndex> extents;
  extents.reserve(extents_.used());
  for (std::uint32_t i = 0; i < table_.size() && extents.size() < extents_.used(); ++i) {
    const Block& block = table_[BlockIndex(i)];
    if (!block.extent.valid() || block.owed) continue;
    extents_.retain(block.extent);
    extents.push_back(block.extent);
  }
  return extents;
}

void Core::release_snapshot(std::span<const ExtentIndex> extents) {
  for (const ExtentIndex extent : extents) extents_.release(extent);
  if (!extents.empty()) engine_.extents_added();
}

std::uint64_t Core::resident_bytes() const {
  return frames_.created() * config_.block_bytes + small_bytes_ + table_bytes();
}

void Core::fill(Stats& stats) const {
  const std::uint64_t bytes = config_.block_bytes;
  const Engine::Counters& counters = engine_.counters();
  stats.budget_bytes = config_.budget_bytes;
  stats.resident_bytes = resident_bytes();
  stats.small_bytes = small_bytes_;
  stats.live_bytes = small_heap_.live_bytes() + large_heap_.live_bytes();
  stats.peak_live_bytes = peak_live_bytes_;
  stats.flash_bytes = extents_.used() * bytes;
  stats.flash_limit_bytes = extents_limit_ * bytes;
  stats.fetched_bytes = counters.fetched * bytes;
  stats.evicted_bytes = counters.evicted * bytes;
  stats.clean_bytes = counters.clean * bytes;
  stats.prefetched_bytes = counters.prefetched * bytes;
  stats.wasted_bytes = counters.wasted * bytes;
  stats.launches = launches_;
  stats.rescues = counters.rescues;
  stats.allocations = allocations_;
  stats.reused = reused_;
  stats.io_errors = counters.io_errors;
  stats.corrupt_blocks = counters.corrupt;
  stats.deviations = policy_.deviations();
  stats.guided = policy_.guided();
}

void Core::validate() {
  engine_.validate();
  small_heap_.validate();
  large_heap_.validate();
  policy_.validate();
  std::uint32_t live = 0;
  for (std::uint32_t i = 0; i < table_.size(); ++i) live += table_[BlockIndex(i)].live > 0 ? 1 : 0;
  EBB_CHECK_EQ(live, live_blocks_);
}

}  // namespace ebb
