// Recording: one iteration of the program as a sequence of events, allocations, launches and frees, and for each use of
// an allocation the position of the next one. What the analysis of tensor vitality in G10 (Zhang et al., MICRO 2023,
// section 4.2) takes from a compiled graph is taken here from the iteration before.
//
// Allocations are named by their serial numbers, which are consecutive: those of this iteration start at start(), those
// of the one before at previous_start().
//
// Where launches use an allocation in parts (parts.h) the next use is that of a part: the slices of a large matrix that
// an optimizer goes through are each used once, though the matrix is in use all the time.
//
// Owned by a policy. finish() ends the recording; from then on it is only read, and reading never allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/parts.h"
#include "plan/policy.h"

namespace ebb {

class Recording {
 public:
  using Position = std::uint32_t;  // of an event in the iteration
  static constexpr Position kNever = 0xffffffff;
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kEventsMax = std::size_t{1} << 20;  // a longer iteration is not learned

  enum class Kind : std::uint8_t { kAllocation, kLaunch, kFree };
  // So many blocks of `all` from one on, as far as there are so many.
  static BlockRange part_of(BlockRange all, std::uint32_t first_block, std::uint32_t blocks) {
    const std::uint32_t first = std::min(first_block, all.count);
    return {BlockIndex(all.first.value() + first), std::min(blocks, all.count - first)};
  }
  struct Event {
    std::uint64_t signature = 0;  // equal events have equal signatures; that of a free equals none
    std::uint32_t first_use = 0;  // launches: their uses are [first_use, first_use + uses); allocations: this number is
                                  // that of nothing else, so that a plan can say what happens after them
    std::uint32_t uses = 0;
    std::uint32_t reference = kNone;  // allocations and frees: of what
    Kind kind = Kind::kLaunch;
    std::uint64_t ns = 0;  // launches: how long it ran; 0: unknown
    std::uint64_t op = 0;  // launches: which
  };
  struct Use {
    std::uint32_t reference = 0;
    std::uint32_t first_block = 0;  // relative to the allocation's first
    std::uint32_t blocks = 0;
    bool written = false;         // as far as is known
    Position next = kNever;       // the next use of the same allocation, in whichever part
    std::uint32_t nexts = kNone;  // of an allocation that is cut: its pieces' next uses begin here

    // Its blocks where the allocation has `all` of these now.
    BlockRange of(BlockRange all) const { return part_of(all, first_block, blocks); }
  };
  struct Reference {
    std::uint64_t serial = 0;
    std::uint64_t bytes = 0;
    BlockRange blocks;
    Position first = kNever;         // the first use
    Position latest = kNever;        // and the last one so far
    Position freed = kNever;         // in this iteration
    std::uint32_t last_use = kNone;  // while recording: index of the latest use, to be linked to the next
    std::uint32_t cuts = kNone;      // where it is cut, if it is
    std::uint8_t doubt = 0;          // how far the program has been using another tensor than the iteration before did

    // Which tensor comes in its place is not known before it is used: an expert among many.
    bool varies() const { return doubt >= kDoubtful; }
  };
  // Blocks of an allocation, from its first, that are used together.
  struct Piece {
    std::uint32_t first_block = 0, blocks = 0;
    Position first = kNever;  // the first use
    Position next = kNever;   // after a use: the next one
    std::uint32_t index = 0;  // of all pieces of what is cut, less than cut_pieces()

    BlockRange of(BlockRange all) const { return part_of(all, first_block, blocks); }
  };
  // One tensor that is not the one foreseen is an exception, a second one a habit, and some iterations without end it.
  static constexpr std::uint8_t kDoubtful = 3, kDoubtMax = 6, kDoubtStep = 2;

  void begin(std::uint64_t start, std::uint64_t previous_start);
  void add_allocation(std::uint64_t serial, std::uint64_t bytes);
  void add_launch(std::uint64_t op, std::span<const Touch> touches, std::span<const BlockIndex> first_blocks);
  // Kept for what this iteration made or used, or the one before made.
  void add_free(std::uint64_t serial);
  // Where an allocation that has been added lies.
  void add_place(std::uint64_t serial, BlockRange blocks);
  // The allocation, which an iteration before this one made, was used in place of a tensor of so much doubt, which was
  // the same one or another.
  void add_doubt(std::uint64_t serial, std::uint8_t before, bool same);
  // The same, of something lasting that has been used here.
  void set_doubt(std::uint64_t serial, std::uint8_t doubt);
  // The launch added last ran for this long.
  void add_duration(std::uint64_t ns);
  void finish();

  // `before` had the same events: what took longer now may have been disturbed, and counts as a quarter more at most.
  void smooth(const Recording& before);

  // Whether the program did the same in both iterations.
  bool same_events(const Recording& other) const;
  // Whether this iteration begins with the events of `other`.
  bool begins_as(const Recording& other) const;
  // Where the launches of `other` happen here, one after the other, as they began there; kNever: nowhere.
  Position begin_of(const Recording& other) const;
  // What happened from `first` on, as an iteration of its own: what was made before it is from earlier ones.
  Recording from(Position first) const;
  bool usable() const { return !events_.empty() && events_.size() < kEventsMax; }
  std::uint64_t start() const { return start_; }
  // Whether an allocation is of this iteration; otherwise it was there before.
  bool made_here(std::uint64_t serial) const { return serial >= start_ && serial < kLastingSerials; }
  std::uint64_t previous_start() const { return previous_start_; }
  Position size() const { return static_cast<Position>(events_.size()); }
  // Of all launches.
  std::uint64_t duration_ns() const;
  const Event& event(Position position) const { return events_[position]; }
  std::span<const Use> uses(const Event& event) const { return std::span(uses_).subspan(event.first_use, event.uses); }
  std::uint32_t uses_total() const { return static_cast<std::uint32_t>(uses_.size()); }
  std::uint32_t references() const { return static_cast<std::uint32_t>(references_.size()); }
  // What launches use in parts; known of a finished recording. Bounds of its pieces, in blocks, both ends included.
  bool is_cut(std::uint32_t reference) const { return references_[reference].cuts != kNone; }
  std::span<const std::uint32_t> bounds(std::uint32_t reference) const {
    return cuts_[references_[reference].cuts].cuts.bounds();
  }
  std::uint32_t cut_pieces() const { return static_cast<std::uint32_t>(first_uses_.size()); }
  // Each piece that a use of something cut touches.
  template <typename F>
  void for_pieces(const Use& use, F&& visit) const {
    const Cut& cut = cuts_[references_[use.reference].cuts];
    const Cuts::Range range = cut.cuts.of({use.first_block, use.blocks});
    for (std::uint32_t piece = range.first; piece < range.end; ++piece) {
      const std::uint32_t from = cut.cuts.bounds()[piece], index = cut.first_piece + piece;
      const Position next = use.nexts == kNone ? kNever : nexts_[use.nexts + (piece - range.first)];
      visit(Piece{from, cut.cuts.bounds()[piece + std::size_t{1}] - from, first_uses_[index], next, index});
    }
  }
  const Reference& reference(std::uint32_t index) const { return references_[index]; }
  // The reference for an allocation of this iteration or an earlier one; kNone if it is never used.
  std::uint32_t find(std::uint64_t serial) const;
  // When an allocation that this iteration made is first used in the iteration after it; kNever: not at all.
  Position first_use_after(std::uint64_t serial) const;
  // And when it is freed there.
  Position freed_after(std::uint64_t serial) const;

  static std::uint64_t allocation_signature(std::uint64_t bytes) { return bytes * 2 + 3; }
  static std::uint64_t launch_signature(std::uint64_t op, std::size_t touches) {
    return (op * 0x9e3779b97f4a7c15ull + touches) * 2 + 2;
  }

 private:
  struct Cut {
    Cuts cuts;
    std::uint32_t first_piece = 0;  // in first_uses_
  };

  std::uint32_t find_or_add(std::uint64_t serial, std::uint64_t bytes);

  std::uint64_t start_ = 0;
  std::uint64_t previous_start_ = 0;
  std::vector<Event> events_;
  Position last_launch_ = kNever;
  std::vector<Use> uses_;
  std::vector<Reference> references_;
  std::vector<std::uint32_t> local_;                // reference by serial - start
  std::map<std::uint64_t, std::uint32_t> earlier_;  // reference by serial
  std::vector<Cut> cuts_;
  std::vector<Position> first_uses_;  // of pieces of what is cut
  std::vector<Position> nexts_;       // for each use of what is cut and each of its pieces
};

}  // namespace ebb
