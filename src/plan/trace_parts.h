// TraceParts: where a tensor that launches use in parts is cut for a trace, whose uses are of whole tensors: a fused
// optimizer goes through a large matrix slice by slice, and only a slice has to be in memory at a time.
//
// Only what is at most half of a tensor cuts it; what uses more touches the pieces that it overlaps. A tensor that
// would be in more pieces than a trace should have (a cache that grows, token by token) stays whole. Owned by a
// TraceDraft. Parts are in blocks from the beginning of the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ebb {

struct TracePart {
  std::uint32_t first = 0;
  std::uint32_t blocks = 0;  // 0: all of the tensor

  bool operator==(const TracePart&) const = default;
};

// The pieces that a tensor is in.
class TracePieces {
 public:
  explicit TracePieces(std::vector<std::uint32_t> cuts) : cuts_(std::move(cuts)) {}

  std::uint32_t count() const { return static_cast<std::uint32_t>(cuts_.size() - 1); }
  // Those that a part overlaps: [first, end).
  struct Range {
    std::uint32_t first = 0, end = 0;
  };
  Range of(const TracePart& part) const;
  // Of a tensor of so many bytes, those of one piece.
  std::uint64_t bytes(std::uint64_t of_tensor, std::uint32_t piece) const;

 private:
  std::vector<std::uint32_t> cuts_;  // at both ends, and between pieces
};

class TraceParts {
 public:
  void add(const TracePart& part);
  TracePieces pieces() const;

 private:
  static constexpr std::size_t kPartsMax = 128;

  std::uint32_t blocks_ = 0;      // as far as parts reach
  std::vector<TracePart> parts_;  // different ones, in order
};

}  // namespace ebb
