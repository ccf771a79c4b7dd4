// See follower.h.
#include "plan/follow/follower.h"

#include <algorithm>
#include <utility>

namespace ebb {
namespace {

constexpr std::uint32_t kLaunchesTelling = 16;  // by which the beginning of an iteration is known
constexpr std::uint64_t kSoon = 64;  // events: what the plan does not know is used again within, for all we know

}  // namespace

void Follower::budget(std::uint64_t block_bytes, std::uint32_t frames) {
  block_bytes_ = block_bytes;
  frames_ = frames;
}

bool Follower::take_guide(std::unique_ptr<Guide> guide) {
  guide_ = std::move(guide);
  return true;
}

// The guide is over, or of no use any more: what follows is later than all of it.
void Follower::end_guide() {
  base_ += guide_->recording().size();
  cursor_ = 0;
  following_ = false;
  guide_.reset();
}

void Follower::allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  cover(blocks);
  if (guide_ != nullptr && !following_) {
    following_ = true;
    began(true);
  }
  next_serial_ = allocation + 1;
  live_[allocation] = blocks;
  next_uses_.add(allocation, blocks);
  recording_.add_allocation(allocation, bytes);
  recording_.add_place(allocation, blocks);
  if (!following_) return;
  std::uint64_t when = kFar;
  if (guide_ != nullptr) {
    if (const Position first = guide_->allocated(allocation, bytes); first != Recording::kNever) when = base_ + first;
    return see_use(allocation, blocks, when);
  }
  const Position position = match(Recording::allocation_signature(bytes), 0, {});
  if (position != Recording::kNever) {
    const std::uint32_t reference = plan().event(position).reference;
    bound_[reference] = allocation;
    if (const Position first = plan().reference(reference).first; first != Recording::kNever) when = base_ + first;
  }
  see_use(allocation, blocks, when);
  if (position != Recording::kNever) matched_allocation(position, allocation);
}

void Follower::cover(BlockRange blocks) { next_uses_.cover(blocks); }

void Follower::mapped(std::uint64_t allocation, std::uint64_t /*bytes*/, BlockRange blocks) {
  cover(blocks);
  live_[allocation] = blocks;
  next_uses_.add(allocation, blocks);
}

void Follower::freed(std::uint64_t allocation) {
  const auto found = live_.find(allocation);
  if (found == live_.end()) return;
  recording_.add_free(allocation);
  recording_.add_place(allocation, found->second);
  next_uses_.remove(allocation, found->second, now());
  live_.erase(found);
  if (guide_ != nullptr) guide_->freed(allocation);
}

void Follower::launched(std::uint64_t op, std::span<const Touch> touches) {
  if (touches.empty()) return;
  first_blocks_.clear();
  Position earliest = Recording::kNever;
  for (const Touch& touch : touches) {
    first_blocks_.push_back(live_.at(touch.allocation).first);
    const std::uint32_t reference = recording_.find(touch.allocation);
    if (reference != Recording::kNone) earliest = std::min(earliest, recording_.reference(reference).latest);
  }
  if (earliest != Recording::kNever) reused(earliest);
  recording_.add_launch(op, touches, first_blocks_);
  ++launches_;
  for (const Touch& touch : touches) {
    if (recording_.made_here(touch.allocation)) continue;
    recording_.add_place(touch.allocation, live_.at(touch.allocation));
    agreement_.here += touch.blocks.count;
  }
  if (!following_) return;
  if (guide_ != nullptr) return launched_by_guide(op, touches);
  const std::uint64_t signature = Recording::launch_signature(op, touches.size());
  const Position position = match(signature, op, touches);
  if (position == Recording::kNever) return see_unknown(touches);
  const Recording::Event& event = plan().event(position);
  const auto uses = plan().uses(event);
  if (event.signature != signature) {
    see_unknown(touches);
    touches = align(uses, touches);
  }
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].allocation == 0) continue;
    if (is_old(uses[i].reference) && resolve(uses[i].reference, false) == touches[i].allocation) {
      agreement_.both += std::min(touches[i].blocks.count, uses[i].blocks);
    }
    doubt(uses[i].reference, touches[i].allocation);
    bound_[uses[i].reference] = touches[i].allocation;
    see_next(uses[i], touches[i]);
  }
  matched(position, touches);
}

// A use of the plan's has happened, with these blocks. Where other ones are used than in the plan its parts tell
// nothing.
void Follower::see_next(const Recording::Use& use, const Touch& touch) {
  const auto see = [&](BlockRange blocks, Position next, Position first) {
    see_use(touch.allocation, blocks, next_use_after(use.reference, next, first));
  };
  const auto see_whole = [&] { see(touch.blocks, use.next, plan().reference(use.reference).first); };
  if (!plan().is_cut(use.reference)) return see_whole();
  const BlockRange all = live_.at(touch.allocation);
  if (touch.blocks != use.of(all)) return see_whole();
  plan().for_pieces(use, [&](const Recording::Piece& piece) { see(piece.of(all), piece.next, piece.first); });
}

// What the plan does not know, or not all of.
void Follower::see_unknown(std::span<const Touch> touches) {
  for (const Touch& touch : touches) {
    if (recording_.made_here(touch.allocation)) see_use(touch.allocation, touch.blocks, now() + kSoon);
  }
}

// Notes, for the iterations that will follow this one, whether a tensor is the one that was foreseen.
void Follower::doubt(std::uint32_t reference, std::uint64_t serial) {
  if (recording_.made_here(serial)) return;
  const std::uint64_t foreseen = resolve(reference, false);
  const bool same = foreseen == serial;
  if (foreseen == 0 || (same && bound_[reference] != 0)) return;
  recording_.add_doubt(serial, plan().reference(reference).doubt, same);
}

// The iteration is over. What lasts and was foreseen, but not used, may not be used next time either: until it has been
// used in some iterations without end, it is not expected before it is used.
void Follower::doubt_absent() {
  if (following_ && guide_ == nullptr) {
    for (std::uint32_t i = 0; i < plan().references(); ++i) {
      const Recording::Reference& reference = plan().reference(i);
      if (reference.serial < kLastingSerials || reference.first == Recording::kNever) continue;
      if (recording_.find(reference.serial) == Recording::kNone) absent_[reference.serial] = Recording::kDoubtMax;
    }
  }
  for (auto each = absent_.begin(); each != absent_.end();) {
    const std::uint32_t used = recording_.find(each->first);
    if (used != Recording::kNone && recording_.reference(used).first != Recording::kNever) {
      recording_.set_doubt(each->first, each->second--);
    }
    each = each->second == 0 || !live_.contains(each->first) ? absent_.erase(each) : std::next(each);
  }
}

void Follower::launched_by_guide(std::uint64_t op, std::span<const Touch> touches) {
  const Position position = guide_->launched(op, touches);
  if (position == Recording::kNever) {
    if (!guide_->lost()) return;
    ++deviations_;
    end_guide();
    return began(true);
  }
  const auto see = [&](const Recording::Use& use, std::uint64_t allocation, BlockRange blocks) {
    const std::uint64_t next = guide_->next_need(use);
    if (blocks.count > 0) see_use(allocation, blocks, next == Guide::kNeverNeeded ? kFar : base_ + next);
  };
  ++guided_;
  // What was passed over is not going to happen.
  const Position passed = std::exchange(cursor_, guide_->cursor());
  for (Position i = passed; i < position; ++i) {
    for (const Recording::Use& use : plan().uses(plan().event(i))) {
      see(use, resolve(use.reference, false), blocks_of(use, false));
    }
  }
  const auto uses = plan().uses(plan().event(position));
  const auto operands = guide_->operands();
  for (std::size_t i = 0; i < uses.size(); ++i) see(uses[i], operands[i].allocation, operands[i].blocks);
  matched(position, operands);
}

// The launches of this iteration so far are the first ones of the plan.
void Follower::bind_launches() {
  bound_.assign(plan().references(), 0);
  cursor_ = 0;
  for (Position i = 0; i < recording_.size(); ++i) {
    if (recording_.event(i).kind != Recording::Kind::kLaunch) continue;
    while (plan().event(cursor_).kind != Recording::Kind::kLaunch) ++cursor_;
    bind_uses(plan().event(cursor_++), recording_.event(i));
  }
}

// What an event of the plan uses is what an event of this iteration does.
void Follower::bind_uses(const Recording::Event& event, const Recording::Event& here) {
  const auto uses = recording_.uses(here);
  const auto planned = plan().uses(event);
  for (std::size_t use = 0; use < std::min(uses.size(), planned.size()); ++use) {
    bound_[planned[use].reference] = recording_.reference(uses[use].reference).serial;
  }
}

// From here on, where the program is in this iteration, the plan is this one.
void Follower::follow(std::uint32_t kind) {
  const bool changed = !following_ || kind != kind_;
  kind_ = kind;
  following_ = plan().usable();
  misses_ = 0;
  cursor_ = recording_.size();
  bound_.assign(plan().references(), 0);
  for (Position i = 0; i < cursor_; ++i) {
    bind_uses(plan().event(i), recording_.event(i));
    if (const std::uint32_t reference = recording_.event(i).reference; reference != Recording::kNone) {
      bound_[plan().event(i).reference] = recording_.reference(reference).serial;
    }
  }
  count_uses();
  if (following_) rebuild();
  began(changed);
}

// When an allocation, or a part of it, is needed after a use, of which the next in the iteration is `later`, and the
// first one `first`: later in the iteration, or in the next one.
std::uint64_t Follower::next_use_after(std::uint32_t index, Position later, Position first) const {
  if (later != Recording::kNever) return base_ + later;
  const Recording::Reference& reference = plan().reference(index);
  // Until it is freed nothing would come of sending it away but the write.
  if (reference.freed != Recording::kNever) return base_ + reference.freed;
  if (reference.varies()) return kFar;
  const bool made_here = plan().made_here(reference.serial);
  Position next = made_here ? plan().first_use_after(reference.serial) : first;
  if (next == Recording::kNever && made_here) next = plan().freed_after(reference.serial);
  return next == Recording::kNever ? kFar : base_ + plan().size() + next;
}

void Follower::step() {
  const std::uint64_t start = recording_.start();
  doubt_absent();
  const bool guided = guide_ != nullptr && following_ && !guide_->over();
  if (guide_ != nullptr && !guided) {
    end_guide();
  } else if (!guided) {
    base_ += following_ ? plan().size() : recording_.size();
  }
  begin_counts();
  ++iterations_over_;
  if (recording_.usable()) {
    bool known = false;
    const std::uint32_t ended = iterations_.add(recording_, known);
    recording_.begin(next_serial_, start);
    if (guided) return;
    if (!known && ended == kind_) following_ = false;  // its place has been taken
    kind_ = following_ ? kind_ : Iterations::kNone;
    follow(iterations_.expected());
  } else {
    recording_.begin(next_serial_, start);
    const std::uint32_t foretold = iterations_.skip();
    if (guided) return;
    following_ = false;
    if (foretold == Iterations::kNone) return began(true);
    follow(foretold);
  }
}

void Follower::begin_counts() {
  switches_ = 0;
  launches_ = 0;
  agreement_ = {};
  try_later_ = kLaunchesTelling;
}

Agreement Follower::agreement() const {
  Agreement agreement = agreement_;
  agreement.expected = planned_;
  if (guide_ != nullptr) agreement.expected = agreement.both = agreement.here;
  return agreement;
}

// When each allocation that lives is needed, from the cursor on.
void Follower::rebuild() {
  next_uses_.forget();
  seen_.assign(plan().references(), false);
  seen_pieces_.assign(plan().cut_pieces(), false);
  for (Position position = cursor_; position < plan().size(); ++position) {
    const Recording::Event& event = plan().event(position);
    for (const Recording::Use& use : plan().uses(event)) see_first(use, position);
    if (event.kind != Recording::Kind::kFree) continue;
    see_first({event.reference, 0, plan().reference(event.reference).blocks.count}, position);
  }
}

// A use, or an end, of what the plan has from the cursor on: for the first time, as far as something is seen.
void Follower::see_first(const Recording::Use& use, Position position) {
  if (seen_[use.reference] || unforeseen(use.reference)) return;
  const std::uint64_t serial = resolve(use.reference, false);
  const auto found = live_.find(serial);
  if (serial == 0 || found == live_.end()) return;
  if (!plan().is_cut(use.reference)) {
    seen_[use.reference] = true;
    return see_use(serial, found->second, base_ + position);
  }
  plan().for_pieces(use, [&](const Recording::Piece& piece) {
    if (!seen_pieces_[piece.index]) see_use(serial, piece.of(found->second), base_ + position);
    seen_pieces_[piece.index] = true;
  });
}

std::uint64_t Follower::keep(BlockIndex index, const Block& block) const {
  if (!following_) return block.last_use;
  // A use that was expected and did not come tells nothing.
  const std::uint64_t next = next_uses_.of(index);
  return kHorizon - (next + 1 < base_ + cursor_ ? kFar : next);
}

// The serial that a reference of the plan has in this iteration, or in the next; 0 if it is not known yet.
std::uint64_t Follower::resolve(std::uint32_t index, bool next_iteration) const {
  if (guide_ != nullptr) return next_iteration ? 0 : guide_->serial_of(index);
  const Recording::Reference& reference = plan().reference(index);
  if (!next_iteration && bound_[index] != 0) return bound_[index];
  if (plan().made_here(reference.serial)) return 0;
  if (live_.contains(reference.serial)) return reference.serial;
  if (reference.serial < plan().previous_start() || reference.serial >= kLastingSerials) return 0;
  // Made in the iteration before: there it was the n-th allocation.
  const std::uint64_t counted = reference.serial - plan().previous_start();
  return (next_iteration ? recording_.start() : recording_.previous_start()) + counted;
}

BlockRange Follower::blocks_of(std::uint64_t allocation) const {
  const auto found = live_.find(allocation);
  return found == live_.end() ? BlockRange{} : found->second;
}

PlanLimits Follower::plan_limits() const {
  PlanLimits limits;
  limits.block_bytes = block_bytes_;
  limits.frames = frames_ > pace().frames_in_transit ? frames_ - pace().frames_in_transit : 1;
  limits.frames_in_transit = pace().frames_in_transit;
  limits.host_blocks = pace().host_blocks;
  limits.host_in_ns = pace().host_in_ns;
  limits.flash_in_ns = pace().flash_in_ns;
  limits.clean_host = pace().clean_host;
  limits.flash_out_ns = pace().flash_out_ns;
  limits.flash_both_ns = pace().flash_both_ns;
  limits.toll_ns = pace().toll_ns;
  return limits;
}

BlockRange Follower::blocks_of(const Recording::Use& use, bool next_iteration) const {
  if (next_iteration ? plan().reference(use.reference).varies() : unforeseen(use.reference)) return {};
  const std::uint64_t serial = resolve(use.reference, next_iteration);
  const auto found = serial == 0 ? live_.end() : live_.find(serial);
  if (found == live_.end()) return {};
  return use.of(found->second);
}

}  // namespace ebb
