// See routine.h.
#include "plan/routine/routine.h"

#include <algorithm>
#include <utility>

namespace ebb {
namespace {

constexpr double kLikely = 0.7;        // enough to fetch a block ahead
constexpr double kCertain = 0.95;      // enough to fetch it where it may displace more
constexpr double kLeastChance = 0.01;  // what is less likely is needed later than that, whatever it is
constexpr double kNeverTicks = 1e15;
constexpr std::uint64_t kMadeHere = 1ull << 63, kMadeBefore = 1ull << 61;  // in keys; serial numbers have neither
constexpr unsigned kOrdinalBits = 8;                                       // among what a slot makes
constexpr std::uint32_t kMadeMax = 64, kFreedMax = 64;                     // by one slot; more are not learned
constexpr std::uint64_t kLate = 64 * Slots::kTick;  // what was expected so long ago does not come
constexpr int kDepthMax = 8;
constexpr std::uint32_t kScanSlotsMax = 4096;   // in one search
constexpr std::uint32_t kLookBlocksMax = 4096;  // likewise, where memory is large
constexpr std::uint32_t kRestartEvery = 8;      // launches: what they have used up is no longer needed until there
constexpr double kLikelyShare = 0.4;            // of memory, to be taken by what is needed until a likely block
constexpr double kCertainShare = 0.75;          // and until a certain one
constexpr double kUrgent = 1, kEarly = 10;      // times what is needed before takes to fetch, and
constexpr double kBlocksAtOnce = 8;             // so much more

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

}  // namespace

void Routine::budget(std::uint64_t block_bytes, std::uint32_t frames) {
  block_bytes_ = block_bytes;
  frames_ = frames;
}

std::uint64_t Routine::key_of(std::uint64_t serial, const Tensor& tensor) const {
  if (is_lasting(tensor)) return serial;
  return tensor.born == iteration_ ? tensor.made : tensor.made | kMadeBefore;
}

std::map<std::uint64_t, Routine::Tensor>::const_iterator Routine::find(std::uint64_t key, bool next_iteration) const {
  if ((key & kMadeHere) == 0) return tensors_.find(key);
  const bool before = (key & kMadeBefore) != 0;
  if (next_iteration && !before) return tensors_.end();
  const auto& made = before && !next_iteration ? made_before_ : made_;
  const auto serial = made.find(key & ~kMadeBefore);
  return serial == made.end() ? tensors_.end() : tensors_.find(serial->second);
}

void Routine::add(std::uint64_t serial, const Tensor& tensor) {
  next_uses_.cover(tensor.blocks);
  counted_.cover(next_uses_.blocks());
  vacancies_.cover(next_uses_.blocks());
  next_uses_.add(serial, tensor.blocks);
  tensors_[serial] = tensor;
}

void Routine::lasts(std::uint64_t serial, BlockRange blocks) {
  Tensor tensor;
  tensor.blocks = blocks;
  add(serial, tensor);
}

void Routine::allocated(std::uint64_t serial, std::uint64_t bytes, BlockRange blocks) {
  Tensor tensor;
  tensor.blocks = blocks;
  tensor.bytes = bytes;
  tensor.born = iteration_;
  // What the first launch of an iteration is about is made before it, such as a batch; before the very first one, what
  // lasts.
  const Slot maker = slots_.current();
  const bool known = made_by_current_ < kMadeMax && (maker != Slots::kNone || iteration_ > 1);
  if (known) tensor.made = kMadeHere | std::uint64_t{maker} << kOrdinalBits | made_by_current_++;
  add(serial, tensor);
  vacancies_.taken(blocks, now());
  if (!known) return;
  made_[tensor.made] = serial;
  if (maker != Slots::kNone) {
    slots_.operands(maker).push_back({tensor.made, bytes, 0, blocks.count, Slots::Kind::kMade});
  }
  const std::uint64_t when = next_use_of(tensor.made);
  next_uses_.see(serial, blocks, when == kNever ? end() : when, now());
}

void Routine::freed(std::uint64_t serial) {
  const auto found = tensors_.find(serial);
  if (found == tensors_.end()) return;
  const Tensor& tensor = found->second;
  if (slots_.current() != Slots::kNone && !is_lasting(tensor) && freed_by_current_++ < kFreedMax) {
    slots_.operands(slots_.current())
        .push_back({key_of(serial, tensor), tensor.bytes, 0, tensor.blocks.count, Slots::Kind::kFreed});
  }
  if (tensor.born == iteration_) made_.erase(tensor.made);
  if (tensor.born + 1 == iteration_) made_before_.erase(tensor.made);
  next_uses_.remove(serial, tensor.blocks, now());
  if (!is_lasting(tensor)) vacancies_.left(tensor.blocks, now());
  tensors_.erase(found);
}

// The same operator on the same lasting tensors for the n-th time, or the n-th launch after such a one.
std::uint64_t Routine::slot_key(std::uint64_t op, std::span<const Touch> touches) {
  std::uint64_t key = mixed(1, op);
  bool anchored = false;
  for (const Touch& touch : touches) {
    const auto tensor = tensors_.find(touch.allocation);
    if (tensor == tensors_.end() || !is_lasting(tensor->second)) continue;
    key = mixed(key, touch.allocation);
    anchored = true;
  }
  if (!anchored) return mixed(mixed(mixed(key, touches.size()), anchor_), ++after_anchor_);
  after_anchor_ = 0;
  return anchor_ = mixed(key, ++occurrences_[key]);
}

// What the slot uses; returns what it depends on: the launch that was the first in this iteration to use one of its
// lasting tensors, as that comes the same way each time, or else the one before it, as what follows on it does so
// again.
Routine::Slot Routine::note_uses(Slot slot, Slot before, std::span<const Touch> touches) {
  const auto later = [&](Slot left, Slot right) {
    return left == Slots::kNone || slots_.order(right) > slots_.order(left) ? right : left;
  };
  Slot used_by = Slots::kNone;
  expected_.clear();
  slots_.operands(slot).swap(expected_);
  for (const Touch& touch : touches) {
    const auto found = tensors_.find(touch.allocation);
    if (found == tensors_.end()) continue;
    Tensor& tensor = found->second;
    const std::uint32_t first = touch.blocks.first.value() - tensor.blocks.first.value();
    slots_.operands(slot).push_back(
        {key_of(touch.allocation, tensor), tensor.bytes, first, touch.blocks.count, Slots::Kind::kUsed});
    if (tensor.used_in != iteration_) {
      tensor.used_in = iteration_;
      tensor.used_by = slot;
    } else if (is_lasting(tensor) && tensor.used_by != slot) {
      used_by = later(used_by, tensor.used_by);
    }
  }
  return used_by != Slots::kNone ? used_by : before;
}

void Routine::note_agreement(bool expected, std::span<const Touch> touches) {
  for (const Touch& touch : touches) {
    const auto tensor = tensors_.find(touch.allocation);
    if (tensor == tensors_.end() || !is_old(tensor->second)) continue;
    agreeing_.here += touch.blocks.count;
    agreeing_.expected += expected ? touch.blocks.count : 0;
    agreeing_.both += expected ? touch.blocks.count : 0;
  }
}

bool Routine::enter(std::uint64_t op, std::span<const Touch> touches) {
  const Slot before = slots_.current();
  const std::uint64_t key = slot_key(op, touches);
  const Slot known = slots_.find(key);
  note_agreement(known != Slots::kNone && slots_.chance(known) >= kLikely, touches);
  const Slot slot = slots_.enter(key);
  if (slot == Slots::kNone) return false;
  made_by_current_ = freed_by_current_ = 0;
  slots_.learn_gate(slot, note_uses(slot, before, touches));
  for (const Slots::Operand& operand : expected_) see_operand(operand);  // it may not have used them this time
  // What has been passed over is not needed where it was expected, nor what depends on it.
  bool as_expected = true;
  for (Slot passed = before == Slots::kNone ? slots_.first() : slots_.next(before); passed != slot;
       passed = slots_.next(passed)) {
    as_expected = as_expected && slots_.share(passed) < kLikely;
    see_operands(passed, 0);
  }
  for (const Slot dependent : slots_.dependents(slot)) see_operands(dependent, 1);
  return as_expected && !slots_.is_new(slot);
}

void Routine::launched(std::uint64_t op, std::span<const Touch> touches) {
  if (touches.empty()) return;
  const bool as_expected = enter(op, touches);
  const bool is_new = slots_.current() != Slots::kNone && slots_.is_new(slots_.current());
  for (const Touch& touch : touches) {
    const auto tensor = tensors_.find(touch.allocation);
    if (tensor == tensors_.end()) continue;
    std::uint64_t when = next_use_of(key_of(touch.allocation, tensor->second));
    // Nobody knows of another use: there may be one in this iteration.
    if (when == kNever && (!is_lasting(tensor->second) || is_new)) when = end();
    next_uses_.see(touch.allocation, touch.blocks, when, now());
  }
  const bool passed = scan_.slot != Slots::kNone && !scan_.next_iteration && slots_.is_past(scan_.slot);
  if (!as_expected || passed || ++launches_since_restart_ >= kRestartEvery) restart_scan();
}

// What is known of when a slot's tensors are needed, now that it has become likelier or less so; and of what depends on
// it.
void Routine::see_operands(Slot slot, int depth) {
  if (depth > kDepthMax || slots_.has_run(slot)) return;
  for (const Slots::Operand& operand : slots_.operands(slot)) see_operand(operand);
  for (const Slot dependent : slots_.dependents(slot)) see_operands(dependent, depth + 1);
}

void Routine::see_operand(const Slots::Operand& operand) {
  if (operand.kind != Slots::Kind::kUsed) return;
  const auto tensor = find(operand.key, false);
  if (tensor == tensors_.end()) return;
  next_uses_.see(tensor->first, tensor->second.blocks, next_use_of(operand.key), now());
}

// The time until a use, divided by how likely it is: what may be needed soon is worth as much as what is certain to be
// needed, but later.
std::uint64_t Routine::next_use_of(std::uint64_t key) const {
  double least = kNeverTicks;
  const auto users = users_.find(key);
  const std::uint64_t left = end() - now();
  if (users != users_.end()) {
    for (const Slot slot : users->second) {
      const double chance = slots_.chance(slot);
      if (chance < kLeastChance) continue;
      const std::uint64_t ticks = std::max(slots_.when(slot), slots_.now()) - slots_.now() + Slots::kTick;
      least = std::min(least, static_cast<double>(ticks) / chance);
    }
  }
  // In the next iteration.
  const auto later = (key & kMadeHere) != 0 ? users_.find(key | kMadeBefore) : users;
  if ((key & kMadeBefore) == 0 && later != users_.end()) {
    for (const Slot slot : later->second) {
      const std::uint64_t ticks = left + slots_.when(slot) + Slots::kTick;
      least = std::min(least, static_cast<double>(ticks) / std::max(slots_.usual(slot), kLeastChance));
    }
  }
  return least >= kNeverTicks ? kNever : now() + static_cast<std::uint64_t>(least);
}

void Routine::step(double flash_in_ns) {
  flash_in_ns_ = flash_in_ns;
  slots_.for_left_out(kLikely, [&](Slot slot) {
    for (const Slots::Operand& operand : slots_.operands(slot)) {
      const bool old = (operand.key & kMadeHere) == 0 || (operand.key & kMadeBefore) != 0;
      agreeing_.expected += operand.kind == Slots::Kind::kUsed && old ? operand.blocks : 0;
    }
  });
  agreement_ = std::exchange(agreeing_, {});
  base_ = end() + Slots::kTick;
  slots_.step();
  ++iteration_;
  made_before_ = std::exchange(made_, {});
  made_by_current_ = freed_by_current_ = 0;
  occurrences_.clear();
  anchor_ = 0;
  after_anchor_ = 0;
  rebuild();
  restart_scan();
}

void Routine::rebuild() {
  users_.clear();
  for (Slot slot = slots_.first(); slot != Slots::kNone; slot = slots_.next(slot)) {
    for (const Slots::Operand& operand : slots_.operands(slot)) {
      if (operand.kind == Slots::Kind::kMade) continue;
      auto& users = users_[operand.key];
      if (users.empty() || users.back() != slot) users.push_back(slot);
    }
  }
  next_uses_.forget();
  for (const auto& [serial, tensor] : tensors_) {
    next_uses_.see(serial, tensor.blocks, next_use_of(key_of(serial, tensor)), now());
  }
}

std::uint64_t Routine::next_use(BlockIndex block) const {
  const auto to_come = [&](std::uint64_t when) { return when != kNever && when + kLate < now() ? kNever : when; };
  return std::min(to_come(next_uses_.of(block)), to_come(vacancies_.taken_at(block)));
}

void Routine::restart_scan() {
  scan_ = {};
  scan_.slot = slots_.current() == Slots::kNone ? slots_.first() : slots_.next(slots_.current());
  counted_.clear();
  looked_ahead_ = false;
  launches_since_restart_ = 0;
}

// Whether these fit in memory together with all that is needed before.
bool Routine::count(const PageTable& table, BlockRange blocks, double share) {
  std::uint64_t more = 0, absent = 0;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    if (counted_.has(i)) continue;
    ++more;
    absent += table[i].state == BlockState::kOnFlash || table[i].state == BlockState::kFetching ? 1 : 0;
  }
  const auto room = static_cast<std::uint64_t>(share * frames_);
  if (scan_.blocks + more + scan_.made_bytes / block_bytes_ > room) return false;
  counted_.add(blocks);
  scan_.blocks += more;
  scan_.absent += absent;
  return true;
}

// What will be made takes memory, until it is freed.
bool Routine::take_up(const Slots::Operand& operand) {
  if (operand.kind == Slots::Kind::kMade) {
    scan_.made_bytes += operand.bytes;
  } else if (operand.kind == Slots::Kind::kFreed && find(operand.key, scan_.next_iteration) == tensors_.end()) {
    scan_.made_bytes -= std::min(scan_.made_bytes, operand.bytes);
  }
  return operand.kind == Slots::Kind::kUsed;
}

// Goes on to what is likely to be needed next, with memory for it beside all that is needed until then: its blocks, or
// none. What is only likely is passed over where there is no room.
BlockRange Routine::find_likely(const PageTable& table) {
  for (; scan_.slots < kScanSlotsMax; ++scan_.slots, scan_.slot = slots_.next(scan_.slot), scan_.operand = 0) {
    if (scan_.slot == Slots::kNone) {
      if (scan_.next_iteration || slots_.first() == Slots::kNone) return {};
      scan_.next_iteration = true;
      scan_.slot = slots_.first();
    }
    const double chance = scan_.next_iteration ? slots_.usual(scan_.slot) : slots_.chance(scan_.slot);
    const auto& operands = slots_.operands(scan_.slot);
    for (; chance >= kLikely && scan_.operand < operands.size(); ++scan_.operand) {
      const Slots::Operand& operand = operands[scan_.operand];
      if (!take_up(operand)) continue;
      const auto tensor = find(operand.key, scan_.next_iteration);
      if (tensor == tensors_.end()) continue;
      const BlockRange all = tensor->second.blocks;
      const std::uint32_t first = std::min(operand.first_block, all.count);
      const BlockRange blocks{BlockIndex(all.first.value() + first), std::min(operand.blocks, all.count - first)};
      if (blocks.count == 0) continue;
      if (count(table, blocks, chance >= kCertain ? kCertainShare : kLikelyShare)) return blocks;
      if (chance >= kCertain) return {};
    }
    scan_.ns += static_cast<double>(slots_.duration_ns(scan_.slot)) * chance;
  }
  return {};
}

// How far to fetch now. Something is due if it is not early any more to begin with all that is absent until there, and
// urgent if it is late to do so. What comes before something that is due is due, too, however long there is until
// then: the passes of an optimizer, which need much at once, are prepared for in those before.
void Routine::look_ahead(const PageTable& table) {
  looked_ahead_ = true;
  due_slots_ = urgent_slots_ = 0;
  const Scan start = scan_;
  std::uint64_t absent = 0;
  for (BlockRange blocks = find_likely(table); blocks.count > 0; blocks = find_likely(table)) {
    const auto takes_ns = [&](double before) { return (before + kBlocksAtOnce) * flash_in_ns_; };
    if (scan_.ns > kEarly * takes_ns(kCertainShare * frames_)) break;  // nor is anything behind it due
    if (scan_.blocks > kLookBlocksMax) break;
    if (scan_.absent > absent) {
      absent = scan_.absent;
      const double before_ns = takes_ns(static_cast<double>(absent));
      if (scan_.ns <= kEarly * before_ns) due_slots_ = scan_.slots + 1;
      if (scan_.ns <= kUrgent * before_ns) urgent_slots_ = scan_.slots + 1;
    }
    ++scan_.operand;
  }
  scan_ = start;
  counted_.clear();
}

Routine::Next Routine::ahead(const PageTable& table) {
  if (!looked_ahead_) look_ahead(table);
  while (true) {
    const BlockRange blocks = find_likely(table);
    if (blocks.count == 0 || scan_.slots >= due_slots_) return {};
    const std::uint64_t when = scan_.next_iteration ? end() + slots_.when(scan_.slot)
                                                    : base_ + std::max(slots_.when(scan_.slot), slots_.now());
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      next_uses_.expect(i, when, now());
      if (table[i].state == BlockState::kOnFlash && table[i].queue == 0) {
        return {i, when, scan_.slots < urgent_slots_};
      }
    }
    ++scan_.operand;
  }
}

}  // namespace ebb
