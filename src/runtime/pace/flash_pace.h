// FlashPace: how long flash takes for a block, as the program experiences it: the time in which reads, writes or both
// were under way, divided by the blocks that came through in it. Plans begin their fetches accordingly, and are chosen
// by it.
//
// A block that came through while only reads were under way may have been under way beside writes before. The device
// is taken to serve all that is under way in equal parts, and those of one kind in their order: of each block as much
// counts for a time as it was served then. (Counted whole where it ends, reads alone would seem slow: of eight that
// begin together and share the device, seven end at the very end, when hardly anything is under way.)
//
// A device with few requests before it is slower than it can be, and plans keep it busy, so times in which less was
// under way count only while nothing better is known. Blocks that leave unchanged are under way, and nothing is
// written: reads beside them alone are reads alone.
//
// Owned by the runtime, under its lock; allocates nothing. Old observations count less and less.
#pragma once

#include <algorithm>
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
    time_ = kIdle;
    if (under_way > 0 && now_ns > now_ns_) {
      time_ = (before_.reads == 0    ? kWriting
               : before_.writes == 0 ? kReading
                                     : kBoth) +
              (under_way >= kBusy ? 0 : std::size_t{kKinds});
      const double ns = static_cast<double>(now_ns - now_ns_);
      seen_[time_].ns += ns;
      served_[time_] += ns / under_way;
    }
    settle(reading_, traffic.read - before_.read, traffic.reads, 0);
    settle(writing_, traffic.written - before_.written, traffic.writes, 1);
    for (Seen& seen : seen_) {
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
  static constexpr std::size_t kLineMax = 64;                // more requests than a runtime has under way each way
  enum : std::size_t { kReading, kWriting, kBoth, kKinds };  // of times; busy ones, then slack ones, then no time
  static constexpr std::size_t kIdle = 2 * kKinds;
  static constexpr double kWritesMin = 1.0 / 16;
  struct Seen {
    double ns = 0;
    double blocks = 0;
    double written = 0;  // of them
    bool writes() const { return written > kWritesMin * blocks; }
    double each_ns() const { return blocks < kBlocksMin ? 0 : ns / blocks; }
  };
  using Served = std::array<double, kIdle + 1>;  // how long, in each kind of time, whoever was under way all along
  // Who is under way in one direction: how far the times were when it began, the oldest first.
  struct Line {
    std::array<Served, kLineMax> since{};
    std::size_t first = 0, count = 0;
  };
  const Seen& of(std::size_t kind) const {
    return seen_[kind].blocks < kBlocksMin ? seen_[kKinds + kind] : seen_[kind];
  }
  // So many are through, so many under way now; `written`: 1 if they are writes.
  void settle(Line& line, std::uint64_t through, std::uint32_t under_way, double written) {
    for (; through > 0 && line.count > 0; --through) {
      count(line.since[line.first], written);
      line.first = (line.first + 1) % kLineMax;
      --line.count;
    }
    seen_[time_].blocks += static_cast<double>(through);  // began and ended since the last time
    seen_[time_].written += static_cast<double>(through) * written;
    line.count = std::min<std::size_t>(line.count, under_way);  // what left unchanged came last
    while (line.count < std::min<std::size_t>(under_way, kLineMax)) {
      line.since[(line.first + line.count++) % kLineMax] = served_;
    }
  }
  void count(const Served& since, double written) {
    double all = 0;
    for (std::size_t i = 0; i < since.size(); ++i) all += served_[i] - since[i];
    for (std::size_t i = 0; i < since.size(); ++i) {
      const double part = all > 0 ? (served_[i] - since[i]) / all : i == time_ ? 1.0 : 0.0;
      seen_[i].blocks += part;
      seen_[i].written += part * written;
    }
  }

  std::array<Seen, kIdle + 1> seen_{};
  Served served_{};
  Line reading_, writing_;
  std::size_t time_ = kIdle;  // what the time since the last observation was
  std::uint64_t now_ns_ = 0;
  Traffic before_;
};

}  // namespace ebb
