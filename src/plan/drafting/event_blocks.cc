// See event_blocks.h.
#include "plan/drafting/event_blocks.h"

#include <algorithm>
#include <limits>

namespace ebb {

EventBlocks::EventBlocks(std::span<const std::int64_t> blocks) : size_(blocks.size()) {
  while (leaves_ < size_) leaves_ *= 2;
  nodes_.assign(2 * leaves_, {std::numeric_limits<std::int64_t>::min() / 2, 0});
  for (std::size_t i = 0; i < blocks.size(); ++i) nodes_[leaves_ + i].most = blocks[i];
  for (std::size_t i = leaves_ - 1; i > 0; --i) nodes_[i].most = std::max(nodes_[2 * i].most, nodes_[2 * i + 1].most);
}

void EventBlocks::add(std::uint64_t first, std::uint64_t end, std::int64_t blocks) {
  if (first < size_) add(1, 0, leaves_, first, std::min(end, size_), blocks);
  if (end > size_) add(1, 0, leaves_, std::max(first, size_) - size_, end - size_, blocks);
}

std::int64_t EventBlocks::at(std::uint64_t event) const {
  std::size_t node = leaves_ + (event < size_ ? event : event - size_);
  std::int64_t blocks = nodes_[node].most;
  while (node /= 2) blocks += nodes_[node].added;
  return blocks;
}

std::uint64_t EventBlocks::fullest() const {
  std::size_t node = 1;
  while (node < leaves_) node = 2 * node + (nodes_[2 * node].most >= nodes_[2 * node + 1].most ? 0 : 1);
  return node - leaves_;
}

std::uint64_t EventBlocks::last_above(std::uint64_t first, std::uint64_t end, std::int64_t blocks) const {
  if (end > size_) {
    const std::uint64_t found = last_above(1, 0, leaves_, std::max(first, size_) - size_, end - size_, blocks);
    if (found != kNone) return found + size_;
  }
  return first < size_ ? last_above(1, 0, leaves_, first, std::min(end, size_), blocks) : kNone;
}

// [low, high) are the events of the node, [first, end) those that are meant.
void EventBlocks::add(std::size_t node, std::uint64_t low, std::uint64_t high, std::uint64_t first, std::uint64_t end,
                      std::int64_t blocks) {
  if (end <= low || high <= first) return;
  if (first <= low && high <= end) {
    nodes_[node].most += blocks;
    nodes_[node].added += blocks;
    return;
  }
  const std::uint64_t middle = (low + high) / 2;
  add(2 * node, low, middle, first, end, blocks);
  add(2 * node + 1, middle, high, first, end, blocks);
  nodes_[node].most = std::max(nodes_[2 * node].most, nodes_[2 * node + 1].most) + nodes_[node].added;
}

// `blocks` is less what has been added above.
std::uint64_t EventBlocks::last_above(std::size_t node, std::uint64_t low, std::uint64_t high, std::uint64_t first,
                                      std::uint64_t end, std::int64_t blocks) const {
  if (end <= low || high <= first || nodes_[node].most <= blocks) return kNone;
  if (high - low == 1) return low;
  const std::uint64_t middle = (low + high) / 2;
  const std::int64_t below = blocks - nodes_[node].added;
  const std::uint64_t later = last_above(2 * node + 1, middle, high, first, end, below);
  return later != kNone ? later : last_above(2 * node, low, middle, first, end, below);
}

}  // namespace ebb
