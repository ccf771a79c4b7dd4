// See scheduled.h.
#include "rivals/scheduled.h"

#include <algorithm>

namespace ebb {
namespace {

constexpr auto kReturnsFirst = [](const auto& left, const auto& right) { return left.return_from > right.return_from; };
constexpr std::uint64_t kMost = std::uint64_t{1} << 61;  // worth more than every arrival

}  // namespace

void Scheduled::cover(BlockRange blocks) {
  arrivals_.cover(blocks);
  if (blocks.end().value() > destination_.size()) {
    destination_.resize(blocks.end().value() + std::size_t{1024}, unplanned_);
  }
  Follower::cover(blocks);
}

void Scheduled::arrived(BlockIndex block) {
  arrivals_.note(block);
  if (block.value() < destination_.size()) destination_[block.value()] = unplanned_;
}

Tier Scheduled::destination(BlockIndex block) const {
  return block.value() < destination_.size() ? destination_[block.value()] : unplanned_;
}

void Scheduled::began(bool changed) {
  if (!changed || !following()) return;
  schedule_ = make_schedule(plan(), plan_limits());
}

void Scheduled::matched(Position position, std::span<const Touch> touches) {
  const Recording::Event& event = plan().event(position);
  for (std::uint32_t i = 0; i < touches.size(); ++i) {
    const std::uint32_t use = event.first_use + i;
    if (use >= schedule_.by_use.size() || schedule_.by_use[use] == Plan::kStays) continue;
    const TensorAbsence& absence = schedule_.absences[schedule_.by_use[use]];
    Journey journey;
    journey.before = base() + absence.before;
    journey.return_from = base() + absence.return_from;
    journey.allocation = touches[i].allocation;
    journey.blocks = blocks_of(touches[i].allocation);
    journey.tier = absence.tier;
    journey.left_at = position;
    idle_.push_back(journey);
  }
  for (Queue& queue : leaving_) tidy(queue, queue.heads[0], idle_.size());
  tidy(returning_, std::min(returning_.heads[0], returning_.heads[1]), away_.size() + idle_.size());
  wake_up(position);
}

// Drops what has been worked through, here, where memory may be allocated.
void Scheduled::tidy(Queue& queue, std::size_t head, std::size_t more) {
  queue.journeys.erase(queue.journeys.begin(), queue.journeys.begin() + static_cast<std::ptrdiff_t>(head));
  for (std::size_t& each : queue.heads) each -= std::min(each, head);
  queue.journeys.reserve(queue.journeys.size() + more);
}

// The cursor has moved: launches are over, and what is away may return.
void Scheduled::wake_up(Position position) {
  std::size_t kept = 0;
  for (const Journey& journey : idle_) {
    if (journey.left_at == position) {
      idle_[kept++] = journey;
      continue;
    }
    leaving_[index_below(journey.tier)].journeys.push_back(journey);
    away_.push_back(journey);
    std::push_heap(away_.begin(), away_.end(), kReturnsFirst);
    for (BlockIndex i = journey.blocks.first; i != journey.blocks.end(); i = i.next()) {
      destination_[i.value()] = journey.tier;
    }
  }
  idle_.resize(kept);
  while (!away_.empty() && away_.front().return_from <= now()) {
    std::pop_heap(away_.begin(), away_.end(), kReturnsFirst);
    returning_.journeys.push_back(away_.back());
    away_.pop_back();
  }
}

BlockIndex Scheduled::behind(const PageTable& table, Tier below, std::uint64_t pinned_from) {
  Queue& queue = leaving_[index_below(below)];
  for (std::size_t& head = queue.heads[0]; head < queue.journeys.size(); ++head) {
    Journey& journey = queue.journeys[head];
    if (journey.return_from <= now() || blocks_of(journey.allocation).count == 0) continue;
    for (std::uint32_t& done = journey.done[0]; done < journey.blocks.count;) {
      const BlockIndex block(journey.blocks.first.value() + done);
      const bool resident = table[block].state == BlockState::kResident && table[block].queue == 0;
      if (resident && table[block].last_use >= pinned_from) return BlockIndex::none();
      ++done;
      // Another tensor may share the block.
      if (resident && next_use(block) >= journey.before) return block;
    }
  }
  return BlockIndex::none();
}

Policy::Ahead Scheduled::ahead(const PageTable& table, Tier below) {
  if (!following()) return {};
  for (std::size_t& head = returning_.heads[index_below(below)]; head < returning_.journeys.size(); ++head) {
    Journey& journey = returning_.journeys[head];
    if (journey.before < now() || blocks_of(journey.allocation).count == 0) continue;
    for (std::uint32_t& done = journey.done[index_below(below)]; done < journey.blocks.count; ++done) {
      const BlockIndex index(journey.blocks.first.value() + done);
      const Block& block = table[index];
      if (block.state != BlockState::kOnFlash || block.queue != 0 || table.tier_below(block) != below) continue;
      return {index, returns_displace() ? kMost : 0};
    }
  }
  return {};
}

}  // namespace ebb
