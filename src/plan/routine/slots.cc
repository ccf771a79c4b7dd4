// See slots.h.
#include "plan/routine/slots.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::uint64_t kGap = std::uint64_t{1} << 32;  // between the numbers that order them
constexpr double kSeenMax = 16;                         // how often a slot runs is the mean of so many iterations
constexpr std::uint32_t kSeenBefore = 3;                // in which it did not, if it is new
constexpr double kForgotten = 0.02;                     // a slot that runs no more often is dropped
constexpr std::uint8_t kGateMissesMax = 2;              // then it depends on nothing that we know of
constexpr int kGatesMax = 8;                            // in a chain of them
constexpr std::uint64_t kLeastTick = Slots::kTick / 16;

}  // namespace

Slots::Slot Slots::find(std::uint64_t key) const {
  const auto known = by_key_.find(key);
  return known == by_key_.end() ? kNone : known->second;
}

Slots::Slot Slots::enter(std::uint64_t key) {
  Slot slot = find(key);
  if (slot == kNone) {
    if (by_key_.size() >= kSlotsMax) return kNone;
    if (unused_.empty()) {
      slot = static_cast<Slot>(slots_.size());
      slots_.emplace_back();
    } else {
      slot = unused_.back();
      unused_.pop_back();
      slots_[slot] = {};
    }
    slots_[slot].key = key;
    slots_[slot].seen = std::min(iteration_ - 1, kSeenBefore);
    by_key_.emplace(key, slot);
    link_behind(slot, current_);
    slots_[slot].when = now_;
  } else if (is_past(slot)) {
    // The order of the program is not what it was taken for.
    unlink(slot);
    link_behind(slot, current_);
    slots_[slot].when = now_;
  }
  slots_[slot].ran_in = iteration_;
  slots_[slot].ns = 0;
  current_ = slot;
  now_ = std::max(now_, slots_[slot].when);
  return slot;
}

void Slots::learn_gate(Slot slot, Slot before) {
  Entry& entry = slots_[slot];
  if (entry.gate != kNone) {
    if (has_run(entry.gate)) return;
    ++entry.gate_misses;
    set_gate(slot, entry.gate_misses >= kGateMissesMax ? kNone : before);
  } else if (entry.gate_misses < kGateMissesMax) {
    set_gate(slot, before);
  }
}

void Slots::set_gate(Slot slot, Slot gate) {
  Entry& entry = slots_[slot];
  if (entry.gate == gate || gate == slot) return;
  if (entry.gate != kNone) std::erase(slots_[entry.gate].dependents, slot);
  entry.gate = gate;
  if (gate != kNone) slots_[gate].dependents.push_back(slot);
  entry.seen = gate == kNone ? std::min(iteration_ - 1, kSeenBefore) : slots_[gate].runs;
  entry.share = entry.seen == 0 ? 0 : std::min(1.0, static_cast<double>(entry.runs) / entry.seen);
}

double Slots::chance(Slot slot) const {
  double all = 1;
  for (int i = 0; i < kGatesMax && slot != kNone; ++i) {
    const Entry& entry = slots_[slot];
    if (has_run(slot)) return i == 0 ? 0 : all;
    if (is_past(slot)) return 0;
    all *= entry.share;
    slot = entry.gate;
  }
  return all;
}

double Slots::usual(Slot slot) const {
  double all = 1;
  for (int i = 0; i < kGatesMax && slot != kNone; ++i) {
    all *= slots_[slot].share;
    slot = slots_[slot].gate;
  }
  return all;
}

void Slots::step() {
  for (Slot slot = first_; slot != kNone;) {
    Entry& entry = slots_[slot];
    const Slot next = entry.next;
    if (entry.gate == kNone || has_run(entry.gate)) {
      entry.share += ((has_run(slot) ? 1 : 0) - entry.share) / std::min<double>(++entry.seen, kSeenMax);
    }
    entry.runs += has_run(slot) ? 1 : 0;
    if (entry.share < kForgotten) forget(slot);
    slot = next;
  }
  length_ = 0;
  for (Slot slot = first_; slot != kNone; slot = slots_[slot].next) {
    slots_[slot].when = length_;
    length_ += std::max(static_cast<std::uint64_t>(usual(slot) * kTick), kLeastTick);
  }
  ++iteration_;
  current_ = kNone;
  now_ = 0;
}

void Slots::forget(Slot slot) {
  set_gate(slot, kNone);
  while (!slots_[slot].dependents.empty()) set_gate(slots_[slot].dependents.back(), kNone);
  unlink(slot);
  by_key_.erase(slots_[slot].key);
  slots_[slot] = {};
  unused_.push_back(slot);
}

// `before`: kNone for the very first.
void Slots::link_behind(Slot slot, Slot before) {
  const Slot next = before == kNone ? first_ : slots_[before].next;
  const std::uint64_t from = before == kNone ? 0 : slots_[before].order;
  slots_[slot].previous = before;
  slots_[slot].next = next;
  (before == kNone ? first_ : slots_[before].next) = slot;
  if (next != kNone) slots_[next].previous = slot;
  slots_[slot].order = next == kNone ? from + kGap : from + (slots_[next].order - from) / 2;
  if (slots_[slot].order == from) renumber();
}

void Slots::unlink(Slot slot) {
  Entry& entry = slots_[slot];
  (entry.previous == kNone ? first_ : slots_[entry.previous].next) = entry.next;
  if (entry.next != kNone) slots_[entry.next].previous = entry.previous;
  entry.next = entry.previous = kNone;
}

void Slots::renumber() {
  std::uint64_t order = 0;
  for (Slot slot = first_; slot != kNone; slot = slots_[slot].next) slots_[slot].order = order += kGap;
}

void Slots::validate() const {
  std::size_t linked = 0;
  std::uint64_t order = 0;
  for (Slot slot = first_; slot != kNone; slot = slots_[slot].next, ++linked) {
    EBB_CHECK_LT(order, slots_[slot].order);
    order = slots_[slot].order;
    EBB_CHECK_EQ(by_key_.at(slots_[slot].key), slot);
    if (slots_[slot].gate == kNone) continue;
    const auto& dependents = slots_[slots_[slot].gate].dependents;
    EBB_CHECK_EQ(std::count(dependents.begin(), dependents.end(), slot), 1);
  }
  EBB_CHECK_EQ(linked, by_key_.size());
  EBB_CHECK_EQ(linked + unused_.size(), slots_.size());
}

}  // namespace ebb
