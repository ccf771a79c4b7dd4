// EarlierPlaces: where ranges lay in earlier iterations. A program that repeats itself asks for the same sizes in the
// same order, so the n-th range of a size is to lie where the n-th one of that size did: its tensors then share blocks
// with the same neighbours in every iteration, and what was planned for one iteration holds for the next. Of each size
// two iterations are known, because what one leaves alive, such as gradients, lies where the next would like to; and
// they are the latest in which there was this size, so that batches of another shape in between do not count.
//
// Owned by a Heap. note() and step() allocate. Invariant: of an iteration no more than kRangesMax are known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ebb {

class EarlierPlaces {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::uint32_t kRangesMax = std::uint32_t{1} << 16;
  static constexpr std::uint32_t kIdleMax = 64;  // iterations without a size until it is forgotten

  // Where the next range of this size lay in the latest iteration that had it, and in the one before.
  std::array<std::uint64_t, 2> of(std::uint64_t bytes) const;
  // The next range of this size lies here.
  void note(std::uint64_t bytes, std::uint64_t offset);
  // An iteration is over.
  void step();

 private:
  struct Size {
    std::vector<std::uint64_t> now, before, earlier;  // offsets, in the order of the program
    std::uint32_t idle = 0;
  };
  std::map<std::uint64_t, Size> sizes_;  // by bytes
  std::uint32_t noted_ = 0;
};

}  // namespace ebb
