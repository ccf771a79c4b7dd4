// Parts: where a tensor that launches use in parts is cut. A fused optimizer goes through a large matrix slice by
// slice, and only a slice has to be in memory at a time; a plan and a trace therefore take such a tensor for several.
//
// Only what is at most half of a tensor cuts it; what uses more touches the pieces that it overlaps. A tensor that
// would be in too many pieces stays whole, as does one that is used from its beginning to ever other ends (a cache that
// grows, token by token), and one of so few blocks that its address says how many they are: another run of the same
// program would be another trace. Owned by a TraceDraft or a Recording. Parts are in blocks from the beginning of the
// tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ebb {

struct Part {
  std::uint32_t first = 0;
  std::uint32_t blocks = 0;  // 0: all of the tensor

  bool operator==(const Part&) const = default;
};

// The pieces that a tensor is in.
class Cuts {
 public:
  explicit Cuts(std::vector<std::uint32_t> cuts) : cuts_(std::move(cuts)) {}

  // At both ends, and between pieces.
  const std::vector<std::uint32_t>& bounds() const { return cuts_; }

  std::uint32_t count() const { return static_cast<std::uint32_t>(cuts_.size() - 1); }
  // Those that a part overlaps: [first, end).
  struct Range {
    std::uint32_t first = 0, end = 0;
  };
  Range of(const Part& part) const;
  // Of a tensor of so many bytes, those of one piece.
  std::uint64_t bytes(std::uint64_t of_tensor, std::uint32_t piece) const;

 private:
  std::vector<std::uint32_t> cuts_;
};

class Parts {
 public:
  void add(const Part& part);
  Cuts pieces() const;

 private:
  static constexpr std::uint32_t kBlocksMin = 4;
  static constexpr std::size_t kPartsMax = 1024;
  static constexpr std::uint32_t kNestedMax = 16;  // that begin alike

  bool too_many() const { return parts_.size() > kPartsMax || nested_ > kNestedMax; }

  std::uint32_t blocks_ = 0;  // as far as parts reach
  std::vector<Part> parts_;   // different ones, in order
  std::uint32_t nested_ = 0;  // the most of them that begin alike
};

}  // namespace ebb
