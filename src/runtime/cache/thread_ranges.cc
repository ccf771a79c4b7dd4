// See thread_ranges.h.
#include "runtime/cache/thread_ranges.h"

#include "base/check.h"

namespace ebb {
namespace {

// A range that so many frees have not brought back into use gives its place to a newer one.
constexpr std::uint32_t kStaleAfter = 2 * ThreadRanges::kRangesMax;
constexpr std::uint32_t kLeaveMax = 8;  // at once

}  // namespace

ThreadRanges::ThreadRanges() {
  for (std::uint32_t i = 0; i < kRangesMax; ++i) held_[i].next = static_cast<Index>(i + 1 < kRangesMax ? i + 1 : kNone);
}

ThreadRanges::Index ThreadRanges::find(std::uint64_t bytes) const {
  for (std::uint32_t slot = slot_of(bytes);; slot = (slot + 1) % kSlots) {
    if (table_[slot].bytes == bytes) return static_cast<Index>(slot);
    if (table_[slot].bytes == 0) return kNone;
  }
}

ThreadRanges::Index ThreadRanges::find_or_add(std::uint64_t bytes) {
  std::uint32_t slot = slot_of(bytes);
  for (; table_[slot].bytes != 0; slot = (slot + 1) % kSlots) {
    if (table_[slot].bytes == bytes) return static_cast<Index>(slot);
  }
  if (sizes_ >= kSizesMax) return kNone;
  ++sizes_;
  table_[slot] = {bytes, kNone};
  return static_cast<Index>(slot);
}

bool ThreadRanges::take(std::uint64_t bytes, Range& range) {
  const Index size = find(bytes);
  if (size == kNone || table_[size].newest == kNone || logged_ == kLogMax) return false;
  const Index newest = table_[size].newest;
  const std::uint16_t turn = RangeTable::after(held_[newest].turn);
  range = {held_[newest].offset, bytes, RangeTable::after(turn)};
  unlink(newest);
  log(Kind::kBorn, range.offset, turn);
  ++counters_.hits;
  counters_.held_bytes -= bytes;
  counters_.idle_bytes -= bytes;
  return true;
}

bool ThreadRanges::put(const Range& range, std::uint64_t bytes_max) {
  ++puts_;
  if (!make_place(range.bytes, bytes_max) || logged_ == kLogMax) return false;
  const Index size = find_or_add(range.bytes);
  if (size == kNone) return false;
  const Index index = unused_;
  Held& held = held_[index];
  unused_ = held.next;
  ++count_;
  held = {range.offset, puts_, range.turn, size, table_[size].newest, kNone, kNone, newest_};
  if (held.next != kNone) held_[held.next].previous = index;
  table_[size].newest = index;
  (newest_ == kNone ? oldest_ : held_[newest_].newer) = index;
  newest_ = index;
  log(Kind::kDied, range.offset, range.turn);
  counters_.held_bytes += range.bytes;
  counters_.idle_bytes += range.bytes;
  return true;
}

// Whether one more of this size may be held, now that the stale ones that stood in its way have left.
bool ThreadRanges::make_place(std::uint64_t bytes, std::uint64_t bytes_max) {
  for (std::uint32_t left = 0; left <= kLeaveMax; ++left) {
    if (count_ + claims_ < kRangesMax && counters_.held_bytes + bytes <= bytes_max) return true;
    if (oldest_ == kNone || puts_ - held_[oldest_].put_at < kStaleAfter || logged_ == kLogMax) return false;
    const Held& held = held_[oldest_];
    counters_.held_bytes -= table_[held.size].bytes;
    log(Kind::kLeft, held.offset, RangeTable::after(held.turn));
    unlink(oldest_);
  }
  return false;
}

void ThreadRanges::unlink(Index index) {
  Held& held = held_[index];
  (held.previous == kNone ? table_[held.size].newest : held_[held.previous].next) = held.next;
  if (held.next != kNone) held_[held.next].previous = held.previous;
  (held.newer == kNone ? newest_ : held_[held.newer].older) = held.older;
  (held.older == kNone ? oldest_ : held_[held.older].newer) = held.newer;
  held.next = unused_;
  unused_ = index;
  --count_;
}

void ThreadRanges::tidy() {
  const std::array<Size, kSlots> before = table_;
  table_ = {};
  sizes_ = 0;
  for (const Size& size : before) {
    if (size.bytes == 0 || size.newest == kNone) continue;
    const Index now = find_or_add(size.bytes);
    table_[now].newest = size.newest;
    for (Index i = size.newest; i != kNone; i = held_[i].next) held_[i].size = now;
  }
}

void ThreadRanges::cut() {
  writing_ = 1 - writing_;
  events_ = logged_;
  logged_ = 0;
  cut_claims_ = claims_;
  news_.store(false, std::memory_order_relaxed);
}

void ThreadRanges::settle(std::uint64_t bytes) {
  EBB_CHECK_EQ(claims_, cut_claims_);  // claims are made under the runtime's mutex
  claims_ = 0;
  cut_claims_ = 0;
  events_ = 0;
  EBB_CHECK_LE(bytes, counters_.idle_bytes);
  counters_.idle_bytes -= bytes;
}

void ThreadRanges::validate() const {
  std::uint32_t by_size = 0, by_age = 0;
  std::uint64_t bytes = 0;
  for (const Size& size : table_) {
    Index previous = kNone;
    for (Index i = size.newest; size.bytes != 0 && i != kNone; previous = i, i = held_[i].next, ++by_size) {
      EBB_CHECK_EQ(held_[i].previous, previous);
      EBB_CHECK_EQ(&table_[held_[i].size], &size);
      bytes += size.bytes;
    }
  }
  Index older = kNone;
  for (Index i = oldest_; i != kNone; older = i, i = held_[i].newer, ++by_age) EBB_CHECK_EQ(held_[i].older, older);
  EBB_CHECK_EQ(newest_, older);
  EBB_CHECK_EQ(by_size, count_);
  EBB_CHECK_EQ(by_age, count_);
  EBB_CHECK_EQ(bytes, counters_.held_bytes);
  EBB_CHECK_LE(bytes, counters_.idle_bytes);
  EBB_CHECK_LE(count_ + claims_, kRangesMax);
}

}  // namespace ebb
