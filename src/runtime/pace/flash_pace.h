// FlashPace: how long flash takes for a block, as the program experiences it: the time in which reads, writes or both
// were under way, divided by the blocks that were through with it. Plans begin their fetches accordingly, and are
// chosen by it.
//
// A device with few requests before it is slower than it can be, and plans keep it busy, so times in which less was
// under way count only while nothing better is known. Blocks that leave unchanged are under way, and nothing is
// written: reads beside them alone are reads alone.
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
    const std::uint32_t under_way = before_.reads + before_.writes;
    if (under_way > 0 && now_ns > now_ns_) {
      const std::size_t kind = before_.reads == 0 ? kWriting : before_.writes == 0 ? kReading : kBoth;
      Seen& seen = under_way >= kBusy ? busy_[kind] : slack_[kind];
      seen.ns += static_cast<double>(now_ns - now_ns_);
      seen.blocks += static_cast<double>(traffic.read - before_.read + traffic.written - before_.written);
      seen.written += static_cast<double>(traffic.written - before_.written);
      if (seen.blocks >= kBlocksMax) seen = {seen.ns / 2, seen.blocks / 2, seen.written / 2};
    }
    now_ns_ = now_ns;
    before_ = traffic;
  }
  // For one block, 0: too little is known. A read alone, or any while not enough were alone; a write alone; and either
  // while both are under way.
  double in_ns() const {
    const Seen alone = of(kReading), beside = of(kBoth);
    if (!beside.writes()) return Seen{alone.ns + beside.ns, alone.blocks + beside.blocks}.each_ns();
    return alone.each_ns() > 0 ? alone.each_ns() : beside.each_ns();
  }
  double out_ns() const { return of(kWriting).each_ns(); }
  double both_ns() const { return of(kBoth).writes() ? of(kBoth).each_ns() : 0; }

 private:
  static constexpr std::uint32_t kBusy = 4;  // requests under way, from which on a device is kept busy
  static constexpr double kBlocksMin = 64;
  static constexpr double kBlocksMax = 4096;
  enum : std::size_t { kReading, kWriting, kBoth };
  static constexpr double kWritesMin = 1.0 / 16;
  struct Seen {
    double ns = 0;
    double blocks = 0;
    double written = 0;  // of them
    bool writes() const { return written > kWritesMin * blocks; }
    double each_ns() const { return blocks < kBlocksMin ? 0 : ns / blocks; }
  };
  const Seen& of(std::size_t kind) const { return busy_[kind].blocks < kBlocksMin ? slack_[kind] : busy_[kind]; }

  std::array<Seen, 3> busy_{}, slack_{};
  std::uint64_t now_ns_ = 0;
  Traffic before_;
};

}  // namespace ebb
