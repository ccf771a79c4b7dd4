// ReadPace: how long flash takes for a block, as the program experiences it: the time in which at least one read was
// under way, divided by the blocks that arrived. Plans begin their fetches accordingly.
//
// Owned by the runtime, under its lock. Old observations count less and less.
#pragma once

#include <cstdint>

namespace ebb {

class ReadPace {
 public:
  // Now, with so many reads under way from now on; `arrived` counts from the start of the program.
  void observe(std::uint64_t now_ns, std::uint32_t under_way, std::uint64_t arrived) {
    if (under_way_ > 0 && now_ns > now_ns_) busy_ns_ += static_cast<double>(now_ns - now_ns_);
    blocks_ += static_cast<double>(arrived - arrived_);
    now_ns_ = now_ns;
    under_way_ = under_way;
    arrived_ = arrived;
    if (blocks_ < kBlocksMax) return;
    busy_ns_ /= 2;
    blocks_ /= 2;
  }
  // 0: too little is known.
  double ns_a_block() const { return blocks_ < kBlocksMin ? 0 : busy_ns_ / blocks_; }

 private:
  static constexpr double kBlocksMin = 64;
  static constexpr double kBlocksMax = 4096;

  double busy_ns_ = 0;
  double blocks_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint32_t under_way_ = 0;
};

}  // namespace ebb
