// FlashPace: how long flash takes for a block, as the program experiences it: the time in which reads, writes or both
// were under way, divided by the blocks that were through with it. Plans begin their fetches accordingly, and are
// chosen by it.
//
// Owned by the runtime, under its lock. Old observations count less and less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ebb {

class FlashPace {
 public:
  // How many are under way, and have been through since the start of the program.
  struct Traffic {
    std::uint32_t reads = 0, writes = 0;
    std::uint64_t read = 0, written = 0;
  };
  // What has been through by now was under way since the last time.
  void observe(std::uint64_t now_ns, const Traffic& traffic) {
    if (before_.reads + before_.writes > 0 && now_ns > now_ns_) {
      Seen& seen = seen_[before_.reads == 0 ? kWriting : before_.writes == 0 ? kReading : kBoth];
      seen.busy_ns += static_cast<double>(now_ns - now_ns_);
      seen.blocks += static_cast<double>(traffic.read - before_.read + traffic.written - before_.written);
      if (seen.blocks >= kBlocksMax) {
        seen.busy_ns /= 2;
        seen.blocks /= 2;
      }
    }
    now_ns_ = now_ns;
    before_ = traffic;
  }
  // For one block, 0: too little is known. A read alone, or any while not enough were alone; a write alone; and either
  // while both are under way.
  double in_ns() const { return of(kReading) > 0 ? of(kReading) : of(kBoth); }
  double out_ns() const { return of(kWriting); }
  double both_ns() const { return of(kBoth); }

 private:
  static constexpr double kBlocksMin = 64;
  static constexpr double kBlocksMax = 4096;
  enum : std::size_t { kReading, kWriting, kBoth };
  struct Seen {
    double busy_ns = 0;
    double blocks = 0;
  };
  double of(std::size_t kind) const {
    return seen_[kind].blocks < kBlocksMin ? 0 : seen_[kind].busy_ns / seen_[kind].blocks;
  }

  std::array<Seen, 3> seen_{};
  std::uint64_t now_ns_ = 0;
  Traffic before_;
};

}  // namespace ebb
