// CyclicReuse: loops over more memory than there is, in programs that announce nothing (NumPy, C++). Where the block
// that came longest ago leaves first, nothing of such a loop is still there when its turn comes; where most of it stays
// and only the rest comes and goes, as much is there as fits.
//
// Touches of what is in memory are not seen. What is seen is how many others came between two arrivals of a block: in
// a loop always as many, all that it goes through, and more than fit. Then most is kept, and as many fewer are to
// come between two as stay. If it is not so, the program does something else, and the oldest leaves first again; the
// next try needs more evidence. If it is, that is looked at again from time to time, by a pass in which the oldest
// leave first: a smaller loop over part of it, which would fit, cannot be told from it otherwise.
//
// Source: what loops is replaced most recent first (Chou and DeWitt, VLDB 1985, section 3); how far beyond memory it
// is used again says when (EELRU: Smaragdakis et al., SIGMETRICS 1999).
//
// Owned by a policy. cover() allocates; the rest never does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/planner/silence.h"
#include "plan/policy.h"

namespace ebb {

class CyclicReuse {
 public:
  // Of so many blocks.
  void cover(std::uint32_t blocks) {
    if (blocks <= came_.size()) return;
    came_.resize(blocks, 0);
    passes_.resize(blocks, false);
  }
  // What was there is dead: what comes there next is something else.
  void forget(BlockRange blocks) {
    for (BlockIndex i = blocks.first; i != blocks.end() && i.value() < came_.size(); i = i.next()) {
      came_[i.value()] = 0;
      passes_[i.value()] = false;
    }
  }
  void set_frames(std::uint32_t frames) { frames_ = frames; }
  void launched() { silence_.launched(); }
  void touched() { silence_.touched(); }
  // Returns whether blocks may have come to be worth less.
  bool arrived(BlockIndex block);
  bool active() const { return keeping_ && silence_.lasts(); }

  // What has just come is in use; of what came again the oldest leaves first, and before all that stays.
  std::uint64_t keep(BlockIndex index, const Block& block) const {
    const std::uint32_t i = index.value();
    const bool leaves = i < passes_.size() && passes_[i] && now_ - came_[i] >= in_use();
    return (leaves ? 0 : kStays) + std::min(block.last_use, kStays - 1);
  }

 private:
  static constexpr std::uint64_t kStays = std::uint64_t{1} << 50;
  static constexpr std::uint32_t kSure = 16, kMost = 32, kMiss = 4;       // of the score
  static constexpr std::uint32_t kMoreNeeded = 4, kNeededMax = 1u << 12;  // after a try that failed
  static constexpr std::uint32_t kLoopMax = 8;                 // times memory; of a longer loop too little would stay
  static constexpr std::uint32_t kTrust = 16, kTrustMax = 64;  // arrivals until it is looked at again, times memory

  // How many of the latest arrivals are in use: several arrays side by side, of each what is read ahead.
  std::uint32_t in_use() const { return std::clamp(frames_ / 16, 4u, 32u); }
  static bool alike(std::uint32_t distance, std::uint32_t other) { return distance - (other - other / 8) <= other / 4; }
  void judge(std::uint32_t distance);
  void stop_keeping(bool failed);

  std::vector<std::uint32_t> came_;  // by block: the arrival that it was, of all; 0: none yet
  std::vector<bool> passes_;         // by block: it came again while most was kept
  std::uint32_t frames_ = 0;
  std::uint32_t now_ = 0;  // arrivals
  Silence silence_;
  std::uint32_t loop_ = 0;   // so many arrivals are between two of a block, or were before most was kept
  std::uint32_t score_ = 0;  // how regular that is
  std::uint32_t needed_ = kSure;
  bool keeping_ = false;
  std::uint32_t since_ = 0;  // the arrival
  std::uint32_t trust_ = kTrust;
};

}  // namespace ebb
