// LongLaunch: a launch whose working set exceeds memory, such as a fused optimizer over all parameters, and how far it
// has come. It goes through its groups in order; within a group, in any order.
//
// How far is told by faults: some blocks, the markers, are held back although they have arrived, and their touch, which
// costs some 20 microseconds, says that their group has begun. Then the groups before it may leave, and the next part,
// a window of blocks ahead, is wanted.
//
// Owned by the core. add() allocates and belongs to the announcing thread; the rest never does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/index.h"

namespace ebb {

class LongLaunch {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // What a step forward means: positions.
  struct Step {
    std::uint32_t behind_first = 0, behind_end = 0;
    std::uint32_t wanted_first = 0, wanted_end = 0;
  };

  LongLaunch(std::uint64_t ticket, std::uint32_t frames)
      : ticket_(ticket), window_(std::max(frames / 2, 2u)), marker_distance_(std::max(frames / 16, 4u)) {}

  void add(BlockRange blocks, std::uint32_t group) {
    if (group != group_ || blocks_.empty()) group_begins_.push_back(size());
    group_ = group;
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (blocks_.empty() || blocks_.back() != i) blocks_.push_back(i);
    }
  }

  std::uint64_t ticket() const { return ticket_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(blocks_.size()); }
  BlockIndex block(std::uint32_t position) const { return blocks_[position]; }
  // Earlier needed, higher stamp: the pinned block with the lowest stamp leaves first.
  std::uint64_t stamp(std::uint32_t position) const { return ticket_ + size() - position; }
  // The first part, which must be there before the launch starts.
  std::uint32_t start_size() const { return std::min(window_ / 4, size()); }

  // The next position of a block that the launch has not left behind.
  std::uint32_t find(BlockIndex block) const {
    const auto begin = blocks_.begin() + behind_;
    const auto found = std::find(begin, blocks_.end(), block);
    return found == blocks_.end() ? kNone : static_cast<std::uint32_t>(found - blocks_.begin());
  }

  // Whether the block at this position, about to be wanted, is to be held back: the first of a group, now and then.
  bool is_marker(std::uint32_t position) {
    if (position == 0 || position < last_marker_ + marker_distance_) return false;
    if (!std::binary_search(group_begins_.begin(), group_begins_.end(), position)) return false;
    last_marker_ = position;
    return true;
  }

  Step advance(std::uint32_t position) {
    EBB_DCHECK(position < size() || size() == 0);
    // The groups before the one that holds `position` are done.
    const auto next_group = std::upper_bound(group_begins_.begin(), group_begins_.end(), position);
    const std::uint32_t done = next_group == group_begins_.begin() ? 0 : *std::prev(next_group);
    Step step{behind_, std::max(behind_, done), wanted_, wanted_};
    behind_ = step.behind_end;
    step.wanted_end = std::max(wanted_, std::min(size(), std::max(position, behind_) + window_));
    wanted_ = step.wanted_end;
    return step;
  }

 private:
  std::uint64_t ticket_;
  std::uint32_t window_;
  std::uint32_t marker_distance_;
  std::vector<BlockIndex> blocks_;
  std::vector<std::uint32_t> group_begins_;
  std::uint32_t group_ = 0;
  std::uint32_t behind_ = 0;  // positions before this are done
  std::uint32_t wanted_ = 0;  // positions before this have been wanted
  std::uint32_t last_marker_ = 0;
};

}  // namespace ebb
