// TouchLoop: what a program that announces nothing touches of mapped files, as a loop. A language model goes through
// its weights once for each token, in the same order: where more is in the loop than fits, recency keeps nothing of it
// until it is needed again. The order is learned from the touches of absent blocks in the first pass; from then on a
// block is worth the more the sooner its turn comes, and the next absent ones come ahead. Every other one of those is
// held back, so that its touch tells how far the program is. When the whole loop is known, as much of it stays as fits,
// evenly over the loop: were it all in one place, the disk would have nothing to do while the program is there.
//
// In the first pass the program is taken to go on as it has begun, through the file.
//
// Where touches are not the ones expected, or launches are announced, it is not active, and says nothing.
//
// Owned by a policy. cover() allocates; touched(), keep() and next() never do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/planner/silence.h"
#include "plan/policy.h"

namespace ebb {

class TouchLoop {
 public:
  // Blocks of mapped files.
  void cover(BlockRange blocks);
  // They are unmapped: what was learned is forgotten.
  void uncover(BlockRange blocks);
  void set_frames(std::uint32_t frames) { frames_ = frames; }
  void launched() { silence_.launched(); }
  // Returns whether blocks may have come to be worth less.
  bool touched(BlockIndex block, std::uint64_t stamp);
  bool active() const { return score_ >= kSure && silence_.lasts() && order_.size() >= kLoopMin; }

  std::uint64_t keep(BlockIndex index, const Block& block) const;
  Policy::Ahead next(const PageTable& table) const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 50;  // worth of what is in use
  static constexpr std::uint32_t kLoopMin = 16;                   // blocks
  static constexpr std::uint32_t kSure = 8, kScoreMax = 64, kMiss = 4;
  static constexpr std::uint32_t kJitterMax = 12;             // threads are not at one place
  static constexpr std::uint32_t kReachMax = 32;              // what keeps a disk busy
  static constexpr std::uint32_t kWindowMax = 8 * kReachMax;  // places, of which most may stay
  // Blocks that are taken to be touched one after the other; more of them when that has been right.
  static constexpr std::uint32_t kRun = 9, kLongRun = 2 * kReachMax;

  std::uint32_t size() const { return static_cast<std::uint32_t>(order_.size()); }
  bool is_mapped(BlockIndex block) const { return block.value() < mapped_.size() && mapped_[block.value()]; }
  std::uint32_t place_of(BlockIndex block) const {
    return block.value() < places_.size() ? places_[block.value()] : kNone;
  }
  // Places from here on to there, around the loop.
  std::uint32_t ahead_of(std::uint32_t place) const { return (place + size() - at_) % size(); }
  std::uint32_t jitter() const { return std::clamp(frames_ / 16, 2u, kJitterMax); }
  std::uint32_t reach() const { return std::clamp(frames_ / 8, 4u, kReachMax); }
  // How many places stay, and whether this one does.
  std::uint32_t staying() const;
  bool stays(std::uint32_t place) const;
  void append(BlockIndex block);

  std::vector<BlockIndex> order_;
  std::vector<std::uint32_t> places_;  // in order_, by block; kNone
  std::vector<bool> mapped_;           // by block
  std::uint32_t at_ = 0;               // where the program is
  std::uint32_t told_at_ = 0;          // where it was when touched() said so last
  std::uint32_t frames_ = 0;
  bool around_ = false;      // it has been gone through once, and the order has an end
  std::uint32_t score_ = 0;  // how well touches were foreseen
  Silence silence_;
  std::uint64_t now_ = 0;  // the latest stamp
};

}  // namespace ebb
