// See foresight.h.
#include "plan/foresight.h"

#include <algorithm>
#include <cmath>

namespace ebb {
namespace {

// The search starts again from the cursor every so many launches, to account for what has been used up by then.
constexpr std::uint32_t kRestartEvery = 32;
constexpr std::uint32_t kSpareShare = 8;        // without a plan this part of memory is left to what is allocated next
constexpr std::uint32_t kScanEventsMax = 4096;  // in one call
constexpr double kPaceShare = 0.25;             // so does flash that takes this much more or less
constexpr double kDurationShare = 0.125;        // and launches that take this much more or less altogether
constexpr std::uint32_t kSearchesMax = 3;       // then the plan's taste stays, whatever changes but the events
constexpr std::uint32_t kBudgetShare = 64;      // a budget changed by this share of it needs another plan
// How far plan and routine foresee iterations. A plan knows when each lane carries what, which is worth that a routine
// foresees so much more; but a plan that hardly foresees half is worse than any routine.
constexpr double kPlanFails = 0.55, kBetter = 0.1;
bool is_better(const Agreement& routine, const Agreement& plan) {
  return plan.share(1) < kPlanFails || routine.share(0) > plan.share(1) + kBetter;
}
// So many are on their way at once where the program may do something else: what it asks for then waits for no more.
constexpr std::uint32_t kGuessedAtOnce = 4, kUnplannedAtOnce = 8, kEarlyAtOnce = 1;
constexpr double kAlike = 0.98;
constexpr std::uint32_t kAlikeMin = 3;    // iterations in a row until no routine is learned
constexpr std::uint64_t kFirstSteps = 3;  // are about the program's beginning

// Makes room for one more entry, here, where memory may be allocated.
template <typename T>
void make_room(std::vector<T>& queue, std::size_t entries) {
  if (queue.capacity() < entries) queue.reserve(2 * entries);
}

// Those of a plan's items, which are in the order of their uses, that are about these uses.
template <typename Item>
std::span<const Item> of_uses(const std::vector<Item>& items, std::uint32_t first_use, std::size_t uses) {
  const auto before = [](const Item& item, std::size_t use) { return item.use < use; };
  const auto first = std::lower_bound(items.begin(), items.end(), first_use, before);
  return {first, std::lower_bound(first, items.end(), first_use + uses, before)};
}

constexpr auto kNeededLast = [](const auto& left, const auto& right) { return left.before < right.before; };
constexpr auto kNeededFirst = [](const auto& left, const auto& right) { return left.before > right.before; };
constexpr auto kReturnsFirst = [](const auto& left, const auto& right) { return left.return_from > right.return_from; };

}  // namespace

void Foresight::began(bool changed) {
  restart_scan();
  demanded_.assign(plan().references(), 0);
  cleanings_.forget_before(now());
  if (!following() || by_routine_) return;
  Planned& planned = plans_[kind()];
  // Other events, another budget, a slower disk or longer launches need another plan; a few frames more or less do not.
  const std::uint32_t change = planned.frames > frames() ? planned.frames - frames() : frames() - planned.frames;
  const auto differs = [](double before, double now, double share) { return std::abs(before - now) > share * before; };
  const auto duration_ns = static_cast<double>(plan().duration_ns());
  if (planned.version != kind_version() || change > frames() / kBudgetShare ||
      differs(planned.pace.flash_in_ns, pace().flash_in_ns, kPaceShare) ||
      differs(planned.pace.flash_out_ns, pace().flash_out_ns, kPaceShare) ||
      differs(planned.pace.flash_both_ns, pace().flash_both_ns, kPaceShare) ||
      differs(planned.duration_ns, duration_ns, kDurationShare)) {
    const bool known = planned.version == kind_version() && planned.searches >= kSearchesMax;
    Plan plan =
        known ? make_plan(this->plan(), plan_limits(), planned.plan.taste) : make_plan(this->plan(), plan_limits());
    const std::uint32_t searches = planned.version == kind_version() ? planned.searches + 1 : 1;
    planned = {kind_version(), frames(), searches, pace(), duration_ns, std::move(plan)};
  }
  if (changed) forget_journeys();
}

// Whatever the plan before wanted back, and when, this one does not know of.
void Foresight::forget_journeys() {
  away_.clear();
  std::fill(away_until_.begin(), away_until_.end(), 0);
  std::fill(stays_until_.begin(), stays_until_.end(), 0);
  cleanings_.clear();
}

void Foresight::cover(BlockRange blocks) {
  Follower::cover(blocks);
  away_until_.resize(blocks_seen(), 0);
  stays_until_.resize(blocks_seen(), 0);
  destination_.resize(blocks_seen(), Tier::kHost);
  demanded_blocks_.cover(blocks_seen());
  cleanings_.cover(blocks_seen());
  reuse_.cover(blocks_seen());
}

void Foresight::allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  if (routine_ != nullptr) routine_->allocated(allocation, bytes, blocks);
  Follower::allocated(allocation, bytes, blocks);
}

void Foresight::mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  if (routine_ != nullptr) routine_->lasts(allocation, blocks);
  Follower::mapped(allocation, bytes, blocks);
  loop_.cover(blocks);
}

void Foresight::freed(std::uint64_t allocation) {
  if (routine_ != nullptr) routine_->freed(allocation);
  if (allocation >= kLastingSerials) loop_.uncover(blocks_of(allocation));
  reuse_.forget(blocks_of(allocation));
  Follower::freed(allocation);
}

void Foresight::budget(std::uint64_t block_bytes, std::uint32_t frames) {
  Follower::budget(block_bytes, frames);
  loop_.set_frames(frames);
  reuse_.set_frames(frames);
  if (routine_ != nullptr) routine_->budget(block_bytes, frames);
}

void Foresight::launched(std::uint64_t op, std::span<const Touch> touches) {
  std::uint64_t used = 0;
  for (const Touch& touch : touches) used += touch.blocks.count;
  by_touch_ = exceeds_memory(used, frames());
  if (!by_touch_) {  // or nothing is known of when it touches what
    loop_.launched();
    reuse_.launched();
  }
  Follower::launched(op, touches);
  if (routine_ != nullptr) routine_->launched(op, touches);
  if (by_routine_) ++version_;
  for (const Touch& touch : touches) {
    if (comes_and_goes(touch.allocation)) used_at_random(op, touch.blocks);
  }
}

void Foresight::ran(std::uint64_t ns) {
  Follower::ran(ns);
  if (routine_ != nullptr) routine_->ran(ns);
}

void Foresight::used_at_random(std::uint64_t op, BlockRange blocks) {
  second_use_.used(op, blocks, steps_);
  if (following()) habit_.used(blocks, steps_);
}

void Foresight::touched(BlockIndex block, std::uint64_t stamp) {
  reuse_.touched();
  if (loop_.touched(block, stamp) && loop_.active()) ++version_;
}

void Foresight::arrived(BlockIndex block) {
  if (reuse_.arrived(block)) ++version_;
}

void Foresight::step() {
  rewind_.begin();
  ++steps_;
  consider_routine();
  Follower::step();
}

// An iteration is over. Which foresaw more of it, the plan or the routine, is what the next one goes by; where they are
// alike, no routine is needed.
void Foresight::consider_routine() {
  const Agreement agreement = this->agreement();
  alike_ = agreement.share(1) >= kAlike ? alike_ + 1 : 0;
  if (routine_ != nullptr) routine_->step(pace().flash_in_ns);
  if (alike_ >= kAlikeMin) {
    routine_.reset();
    routine_agrees_ = {};  // the next one has foreseen nothing yet
  } else if (routine_ == nullptr && alike_ == 0) {
    routine_ = std::make_unique<Routine>();
    routine_->budget(block_bytes(), frames());
    for (const auto& [serial, blocks] : live()) routine_->lasts(serial, blocks);
  }
  if (steps_ > kFirstSteps) {
    plan_agrees_.fade_and_add(agreement);
    if (routine_ != nullptr) routine_agrees_.fade_and_add(routine_->agreement());
  }
  const bool by_routine = steps_ > kFirstSteps && routine_ != nullptr && is_better(routine_agrees_, plan_agrees_);
  if (by_routine == by_routine_) return;
  by_routine_ = by_routine;
  ++version_;
  idle_.clear();
  for (auto& queue : leaving_) queue.clear();
  for (auto& queue : returning_) queue.clear();
  forget_journeys();
}

void Foresight::matched(Position position, std::span<const Touch> touches) {
  if (by_routine_) return;
  matched_absences(position, touches);
  wake_up(position);
  if (++launches_since_restart_ >= kRestartEvery || scan_ < cursor()) restart_scan();
}

// It is the result of a launch that is not over: until then it is pinned, for its stamp is later.
void Foresight::matched_allocation(Position position, std::uint64_t allocation) {
  if (by_routine_) return;
  const Touch made{allocation, 0, blocks_of(allocation), true};
  matched_absences(position, {&made, 1});
}

// What leaves after a use, may be written out before the next one, or is to stay.
void Foresight::matched_absences(Position position, std::span<const Touch> touches) {
  const Recording::Event& event = this->plan().event(position);
  const Plan& plan = plans_[kind()].plan;
  const auto uses = this->plan().uses(event);  // none, if it is an allocation
  for (std::uint32_t i = 0; i < touches.size(); ++i) {
    const std::uint32_t use = event.first_use + i;
    if (use >= plan.by_use.size() || plan.by_use[use] == Plan::kStays) continue;
    const BlockRange all = blocks_of(touches[i].allocation);
    const bool varies = i < uses.size() && this->plan().reference(uses[i].reference).varies();
    for (std::uint32_t k = plan.by_use[use]; k < plan.absences.size() && plan.absences[k].use == use; ++k) {
      const TensorAbsence& absence = plan.absences[k];
      const std::uint32_t first = std::min(absence.first_block, all.count);
      Journey journey;
      journey.before = base() + absence.before;
      journey.needed = absence.needed && !(varies && absence.before >= this->plan().size());
      journey.return_from = base() + absence.return_from;
      journey.blocks = {BlockIndex(all.first.value() + first), std::min(absence.blocks, all.count - first)};
      journey.tier = absence.tier;
      journey.left_at = position;
      idle_.push_back(journey);
    }
  }
  matched_cleanings(event, touches);
  matched_stays(event, touches);
  const std::size_t entries = idle_.size() + away_.size() + leaving_[0].size() + leaving_[1].size() + touches.size();
  for (auto& queue : leaving_) make_room(queue, entries);
  for (auto& queue : returning_) make_room(queue, entries + queue.size());
  make_room(idle_, entries);
}

// What may be written out before the tensors that this launch uses are used again.
void Foresight::matched_cleanings(const Recording::Event& event, std::span<const Touch> touches) {
  for (const Cleaning& cleaning : of_uses(plans_[kind()].plan.cleanings, event.first_use, touches.size())) {
    cleanings_.add(cleaning, blocks_of(touches[cleaning.use - event.first_use].allocation), base());
  }
}

// What this launch uses and is to stay, whatever is needed sooner.
void Foresight::matched_stays(const Recording::Event& event, std::span<const Touch> touches) {
  for (const Plan::Stay& stay : of_uses(plans_[kind()].plan.stays, event.first_use, touches.size())) {
    const BlockRange tensor = blocks_of(touches[stay.use - event.first_use].allocation);
    const std::uint32_t end = std::min(stay.first_block + stay.blocks, tensor.count);
    for (std::uint32_t i = stay.first_block; i < end; ++i) {
      stays_until_[tensor.first.value() + i] = base() + stay.until;
    }
  }
}

// The cursor has moved: launches are over, and what is away may return.
void Foresight::wake_up(Position position) {
  std::size_t kept = 0;
  for (const Journey& journey : idle_) {
    if (journey.left_at == position) {
      idle_[kept++] = journey;
      continue;
    }
    ++version_;
    auto& queue = leaving_[index_below(journey.tier)];
    queue.push_back(journey);
    std::push_heap(queue.begin(), queue.end(), kNeededLast);
    if (journey.needed) {
      away_.push_back(journey);
      std::push_heap(away_.begin(), away_.end(), kReturnsFirst);
    }
    for (BlockIndex i = journey.blocks.first; i != journey.blocks.end(); i = i.next()) {
      away_until_[i.value()] = journey.return_from;
      destination_[i.value()] = journey.tier;
    }
  }
  idle_.resize(kept);
  while (!away_.empty() && away_.front().return_from <= now()) {
    std::pop_heap(away_.begin(), away_.end(), kReturnsFirst);
    auto& queue = returning_[index_below(away_.back().tier)];
    queue.push_back(away_.back());
    std::push_heap(queue.begin(), queue.end(), kNeededFirst);
    away_.pop_back();
  }
}

// What comes again in this iteration does so before anything of the next one; otherwise it is worth what its habit is.
std::uint64_t Foresight::unforeseen(BlockIndex index) const {
  if (!second_use_.comes(index, steps_)) return kUnforeseen + habit_.worth(index);
  return kHorizon - (by_routine_ ? routine_->end() : base() + plan().size());
}

std::uint64_t Foresight::keep(BlockIndex index, const Block& block) const {
  if (!following() && loop_.active()) return loop_.keep(index, block);
  if ((!following() || by_touch_) && reuse_.active()) return reuse_.keep(index, block);
  if (by_routine_) {
    const std::uint64_t next = routine_->next_use(index);
    return std::max(next < kFar ? kHorizon - next : 0, unforeseen(index));
  }
  const std::uint64_t worth = Follower::keep(index, block);
  if (following() && worth == kUnforeseen) return unforeseen(index);
  if (!following() || index.value() >= away_until_.size()) return worth;
  if (stays_until_[index.value()] > now()) return std::max(worth, kHorizon - now());
  const std::uint64_t until = away_until_[index.value()];
  const bool leaves = until > now() && next_use(index) >= until;  // another tensor may share the block
  return leaves && worth > kHorizon / 2 ? worth - kHorizon / 2 : worth;
}

Tier Foresight::destination(BlockIndex block) const {
  return block.value() < destination_.size() ? destination_[block.value()] : Tier::kHost;
}

BlockIndex Foresight::behind(const PageTable& table, Tier below, std::uint64_t pinned_from) {
  auto& queue = leaving_[index_below(below)];
  while (!queue.empty()) {
    Journey& journey = queue.front();
    const bool pointless = journey.return_from <= now();
    while (!pointless && journey.done < journey.blocks.count) {
      const BlockIndex block(journey.blocks.end().value() - 1 - journey.done);
      const bool resident =
          table[block].state == BlockState::kResident && table[block].queue == 0 && table[block].live > 0;
      if (resident && table[block].last_use >= pinned_from) return BlockIndex::none();
      ++journey.done;
      // Another tensor may share the block.
      if (resident && next_use(block) >= journey.before) return block;
    }
    std::pop_heap(queue.begin(), queue.end(), kNeededLast);
    queue.pop_back();
  }
  return BlockIndex::none();
}

BlockIndex Foresight::clean(const PageTable& table, Tier below, std::uint64_t pinned_from) {
  const BlockIndex block =
      cleanings_.next(table, below, now(), pinned_from, [&](BlockIndex each) { return next_use(each); });
  if (block.valid()) destination_[block.value()] = below;
  return block;
}

Policy::Ahead Foresight::ahead(const PageTable& table, Tier below) {
  if (by_routine_) {
    const Routine::Next next = routine_->ahead(table);
    if (!next.block.valid()) return {};
    return {.block = next.block,
            .worth = kHorizon - std::min(next.when, kHorizon),
            .at_once = next.urgent ? kGuessedAtOnce : kEarlyAtOnce};
  }
  if (!following() && loop_.active()) return loop_.next(table);
  if (!following()) {
    Ahead next = rewind_.next(table, recording(), [&](const Recording::Use& use) {
      return use.of(blocks_of(recording().reference(use.reference).serial));
    });
    next.spare = frames() / kSpareShare;
    return next;
  }
  if (table.count(BlockState::kOnFlash) == 0) return {};
  // A plan's own first, unless something is needed sooner: another plan has sent it away.
  const Ahead next = planned(table, below);
  const Ahead other = unplanned(table);
  const auto& queue = returning_[index_below(below)];
  if (!next.block.valid() || (other.block.valid() && kHorizon - other.worth < queue.front().before)) return other;
  return next;
}

Policy::Ahead Foresight::planned(const PageTable& table, Tier below) {
  auto& queue = returning_[index_below(below)];
  while (!queue.empty()) {
    Journey& journey = queue.front();
    const bool pointless = journey.before < now();
    for (; !pointless && journey.done < journey.blocks.count; ++journey.done) {
      const BlockIndex block(journey.blocks.first.value() + journey.done);
      if (table[block].state == BlockState::kOnFlash && table[block].queue == 0) return {block, 0};
    }
    std::pop_heap(queue.begin(), queue.end(), kNeededFirst);
    queue.pop_back();
  }
  return {};
}

void Foresight::restart_scan() {
  launches_since_restart_ = 0;
  scan_ = cursor();
  scan_use_ = 0;
  scan_demanded_ = scan_full_ = false;
  demanded_blocks_.clear();
  present_bytes_ = 0;
  demand_bytes_ = 0;
  std::fill(demanded_.begin(), demanded_.end(), 0);
}

// Adds what will be allocated; false if it does not fit with the rest.
bool Foresight::demand(std::uint32_t reference, std::uint64_t bytes) {
  std::uint64_t& demanded = demanded_[reference];
  if (bytes <= demanded) return true;
  if (demand_bytes_ + bytes - demanded > demand_bytes_max()) return false;
  demand_bytes_ += bytes - demanded;
  demanded = bytes;
  return true;
}

// Adds the blocks that are used of an allocation; false if they do not fit with the rest.
bool Foresight::demand(std::uint32_t reference, BlockRange blocks) {
  if (blocks.count == 0) return true;
  std::uint64_t more = 0;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    more += demanded_blocks_.has(i) ? 0 : block_bytes();
  }
  if (std::max(present_bytes_, demand_bytes_) + more > demand_bytes_max()) return false;
  demanded_blocks_.add(blocks);
  present_bytes_ += more;
  demand_bytes_ += more;
  demanded_[reference] += more;
  return true;
}

void Foresight::release(std::uint32_t reference) {
  demand_bytes_ -= demanded_[reference];
  demanded_[reference] = 0;
}

// Blocks that are absent without a plan, in the order of their next use.
Policy::Ahead Foresight::unplanned(const PageTable& table) {
  // A use that allocations have passed is none to keep(): what is fetched for it would be sent away, without end.
  if (scan_ < cursor()) restart_scan();
  if (scan_full_) return {};
  const std::uint64_t size = plan().size();
  for (std::uint32_t events = 0; events < kScanEventsMax && scan_ < cursor() + size; ++events, ++scan_) {
    const bool next_iteration = scan_ >= size;
    const Recording::Event& event = plan().event(static_cast<Position>(next_iteration ? scan_ - size : scan_));
    if (event.kind == Recording::Kind::kFree) {
      release(event.reference);
      continue;
    }
    if (event.kind == Recording::Kind::kAllocation) {
      scan_full_ = !demand(event.reference, plan().reference(event.reference).bytes);
      if (scan_full_) return {};
      continue;
    }
    const auto uses = plan().uses(event);
    for (; scan_use_ < uses.size(); ++scan_use_, scan_demanded_ = false) {
      const Recording::Use& use = uses[scan_use_];
      const BlockRange blocks = blocks_of(use, next_iteration);
      scan_full_ = !scan_demanded_ && !demand(use.reference, blocks);
      if (scan_full_) return {};
      scan_demanded_ = true;
      for (BlockIndex i = blocks.first; blocks.count > 0 && i != blocks.end(); i = i.next()) {
        const std::uint64_t when = base() + scan_;
        expect(i, when);
        if (table[i].state != BlockState::kOnFlash || table[i].queue != 0) continue;
        if (away_until_[i.value()] > now()) continue;
        return {.block = i, .worth = kHorizon - when, .at_once = kUnplannedAtOnce};
      }
    }
    scan_use_ = 0;
  }
  return {};
}

}  // namespace ebb
