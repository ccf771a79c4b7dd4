// ThreadRanges: what one thread of the program has freed and may have again, by size, newest first, and the log of what
// it has done, until the core is told. Nothing in here asks how memory is: a range that is held is a live one to the
// engine, with its frames.
//
// A range is held until it is taken, or leaves: claimed at once when memory is short, or, when there is no place for a
// newer one and it has not been asked for in a long time, by an event in the log.
//
// Owned by the RangeCache. Every function is called with `lock` held, but those about the log that has been cut, which
// is of whoever holds the runtime's mutex. Fixed size, never allocates. Invariant: what is held is in the list of its
// size and in the list by age; held + claimed fit.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "runtime/cache/range_table.h"
#include "runtime/cache/spin_lock.h"

namespace ebb {

class ThreadRanges {
 public:
  static constexpr std::uint32_t kRangesMax = 2048;
  static constexpr std::uint32_t kLogMax = 512;

  enum class Kind : std::uint8_t { kDied, kBorn, kLeft };  // freed, taken again, held no longer
  class Event {
   public:
    Event() = default;
    Event(Kind kind, std::uint64_t offset, std::uint16_t turn)
        : word_(std::uint64_t{turn} << kTurnShift | offset | static_cast<std::uint64_t>(kind)) {}
    Kind kind() const { return static_cast<Kind>(word_ % kAlignment); }
    std::uint64_t offset() const { return word_ % (std::uint64_t{1} << kTurnShift) / kAlignment * kAlignment; }
    // How many events the range had before it, modulo RangeTable::kTurns.
    std::uint16_t turn() const { return static_cast<std::uint16_t>(word_ >> kTurnShift); }

   private:
    static constexpr std::uint64_t kAlignment = 64;  // of ranges
    static constexpr unsigned kTurnShift = 50;       // offsets are far below that
    std::uint64_t word_ = 0;
  };
  using Range = RangeTable::Range;
  struct Counters {
    std::uint64_t hits = 0;
    std::uint64_t held_bytes = 0;
    std::uint64_t idle_bytes = 0;  // of ranges that are nobody's, whether or not the core has been told
  };

  ThreadRanges();

  SpinLock lock;

  // A held range of exactly this size; false if there is none, or no room in the log.
  bool take(std::uint64_t bytes, Range& range);
  // False if it cannot be held: it would be more than `bytes_max`, there are too many, or the log is full.
  bool put(const Range& range, std::uint64_t bytes_max);
  // Whether put() fails for want of a list for one more size: tidy() forgets those that are empty.
  bool crowded() const { return sizes_ >= kSizesMax; }
  void tidy();
  // Gives up all that is held, calling release(offset, bytes) for each; they are claimed() until settle().
  template <typename Release>
  void claim_all(Release&& release);
  const Counters& counters() const { return counters_; }

  // Whether there is something to cut; may be asked without the lock, and then holds for what this thread has done.
  bool has_news() const { return news_.load(std::memory_order_relaxed); }
  // Ends the log that is being written; events() and claimed() are then what has been cut, until settle().
  void cut();
  std::span<const Event> events() const { return std::span(logs_[1 - writing_]).first(events_); }
  std::span<const std::uint64_t> claimed() const { return std::span(claimed_).first(cut_claims_); }
  // All of that has been dealt with; `bytes` are no longer idle.
  void settle(std::uint64_t bytes);

  void validate() const;

 private:
  using Index = std::uint16_t;
  static constexpr Index kNone = 0xffff;
  static constexpr std::uint32_t kSlots = 256;  // of the hash table of sizes
  static constexpr std::uint32_t kSizesMax = 192;

  struct Held {
    std::uint64_t offset = 0;
    std::uint32_t put_at = 0;              // counted in calls of put()
    std::uint16_t turn = 0;                // of its death
    Index size = kNone;                    // its list
    Index next = kNone, previous = kNone;  // in that list; `next` also links what is not in use
    Index newer = kNone, older = kNone;
  };
  struct Size {
    std::uint64_t bytes = 0;  // 0: not in use
    Index newest = kNone;
  };

  static std::uint32_t slot_of(std::uint64_t bytes) {
    return static_cast<std::uint32_t>((bytes * 0x9e3779b97f4a7c15ull) >> 56);
  }
  Index find(std::uint64_t bytes) const;
  Index find_or_add(std::uint64_t bytes);
  void unlink(Index held);
  bool make_place(std::uint64_t bytes, std::uint64_t bytes_max);
  void log(Kind kind, std::uint64_t offset, std::uint16_t turn) {
    logs_[writing_][logged_++] = {kind, offset, turn};
    news_.store(true, std::memory_order_relaxed);
  }

  std::array<Size, kSlots> table_;
  std::uint32_t sizes_ = 0;
  std::array<Held, kRangesMax> held_;
  Index unused_ = 0;
  std::uint32_t count_ = 0;
  Index oldest_ = kNone, newest_ = kNone;
  std::uint32_t puts_ = 0;
  std::array<std::array<Event, kLogMax>, 2> logs_;
  std::uint32_t writing_ = 0;
  std::uint32_t logged_ = 0;
  std::uint32_t events_ = 0;  // in the log that was cut
  std::array<std::uint64_t, kRangesMax> claimed_;
  std::uint32_t claims_ = 0;
  std::uint32_t cut_claims_ = 0;
  std::atomic<bool> news_{false};
  Counters counters_;
};

template <typename Release>
void ThreadRanges::claim_all(Release&& release) {
  while (oldest_ != kNone && claims_ < claimed_.size()) {
    const Held& held = held_[oldest_];
    const std::uint64_t offset = held.offset;
    const std::uint64_t bytes = table_[held.size].bytes;
    claimed_[claims_++] = offset;
    unlink(oldest_);
    counters_.held_bytes -= bytes;
    release(offset, bytes);
  }
  if (claims_ > 0) news_.store(true, std::memory_order_relaxed);
}

}  // namespace ebb
