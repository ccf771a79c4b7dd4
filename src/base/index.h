// Index<Tag>: a strong 32-bit index, so that a block can never be taken for a frame or an extent. All bits zero is
// none(), so zeroed memory holds valid indices and large tables need not be written before they are used.
#pragma once

#include <compare>
#include <cstdint>

namespace ebb {

template <typename Tag>
class Index {
 public:
  constexpr Index() = default;
  constexpr explicit Index(std::uint32_t value) : one_more_(value + 1) {}
  static constexpr Index none() { return Index(); }
  constexpr bool valid() const { return one_more_ != 0; }
  constexpr std::uint32_t value() const { return one_more_ - 1; }
  constexpr Index next() const { return Index(one_more_); }
  friend constexpr auto operator<=>(Index, Index) = default;

 private:
  std::uint32_t one_more_ = 0;
};

using BlockIndex = Index<struct BlockTag>;    // a block-sized piece of the space
using FrameIndex = Index<struct FrameTag>;    // block-sized physical memory
using ExtentIndex = Index<struct ExtentTag>;  // block-sized place on flash

// A half-open run of blocks.
struct BlockRange {
  BlockIndex first;
  std::uint32_t count = 0;
  constexpr BlockIndex end() const { return BlockIndex(first.value() + count); }
  friend constexpr bool operator==(const BlockRange&, const BlockRange&) = default;
};

}  // namespace ebb
