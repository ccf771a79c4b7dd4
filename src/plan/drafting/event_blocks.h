// EventBlocks: how many blocks are present at each event of an iteration that repeats. What is asked of it is asked of
// runs of events, from one to the next iteration too: a tree of maxima (with the additions to a subtree in its root)
// answers in the logarithm of the iteration's length, so that a plan does not grow with the length of absences.
//
// Owned by Drafter. Events are counted from the first iteration: [0, 2 * size). Invariant: node i holds the maximum of
// its leaves, less what has been added to nodes above it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebb {

class EventBlocks {
 public:
  static constexpr std::uint64_t kNone = ~0ull;

  explicit EventBlocks(std::span<const std::int64_t> blocks);

  // To all of [first, end), which is no longer than an iteration.
  void add(std::uint64_t first, std::uint64_t end, std::int64_t blocks);
  std::int64_t at(std::uint64_t event) const;
  // The first of the events with most, in the first iteration.
  std::uint64_t fullest() const;
  // The last event of [first, end), no longer than an iteration, with more than so many; kNone: there is none.
  std::uint64_t last_above(std::uint64_t first, std::uint64_t end, std::int64_t blocks) const;

 private:
  struct Node {
    std::int64_t most = 0;   // in this subtree, of which
    std::int64_t added = 0;  // has been added to all of it
  };
  void add(std::size_t node, std::uint64_t low, std::uint64_t high, std::uint64_t first, std::uint64_t end,
           std::int64_t blocks);
  std::uint64_t last_above(std::size_t node, std::uint64_t low, std::uint64_t high, std::uint64_t first,
                           std::uint64_t end, std::int64_t blocks) const;

  const std::uint64_t size_;
  std::uint64_t leaves_ = 1;  // a power of two
  std::vector<Node> nodes_;   // [1] is the root, those of [i] are [2i] and [2i + 1]
};

}  // namespace ebb
