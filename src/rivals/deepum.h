// deepum: correlation prefetch after DeepUM (Jung, Kim, Lee, ASPLOS 2023, sections 4 and 5). Which launch follows
// which, and what each of them touches, is looked up in the iteration before; the blocks of the next 8 launches are
// fetched ahead, in that order, and room is made for what they allocate; of the blocks that none of these launches
// needs, the one that came first leaves first.
//
// The original guesses the next launches from hashes of the last few; here the recording is the correlation table, so
// that its predictions are right whenever the program repeats itself. It knows no bandwidth. Without an iteration to
// follow, launches fetch what they need in one batch.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/follow/follower.h"
#include "rivals/arrivals.h"

namespace ebb {

class DeepUm final : public Follower {
 public:
  static constexpr std::uint32_t kLaunchesAhead = 8;

  std::string_view name() const override { return "deepum"; }
  void budget(std::uint64_t block_bytes, std::uint32_t frames) override;
  void arrived(BlockIndex block) override { arrivals_.note(block); }
  std::uint64_t keep(BlockIndex index, const Block& block) const override;
  Ahead ahead(const PageTable& table, Tier below) override;
  BlockIndex behind(const PageTable& table, Tier below, std::uint64_t pinned_from) override;

 private:
  static constexpr std::uint64_t kInWindow = std::uint64_t{1} << 60;  // above every arrival

  // How far the search for blocks in one tier has come.
  struct Scan {
    std::uint64_t event = 0;  // from the start of this iteration; from size() on: in the next one
    std::uint32_t use = 0;
    std::uint32_t block = 0;
  };

  void matched(Position position, std::span<const Touch> touches) override;
  void cover(BlockRange blocks) override;
  void began(bool changed) override;
  void look_ahead();
  void choose_victims(const PageTable& table, std::uint64_t pinned_from);
  bool in_window(BlockIndex block) const;
  const Recording::Event& event(std::uint64_t number) const {
    return plan().event(static_cast<Position>(number < plan().size() ? number : number - plan().size()));
  }

  Arrivals arrivals_;
  std::uint64_t window_end_ = 0;  // the event after the last launch looked ahead to, like Scan::event
  std::array<Scan, 2> scans_;     // by tier below
  std::vector<bool> temporary_;   // by reference of the plan: freed within the iteration
  std::uint64_t new_bytes_ = 0;   // most that the window allocates, less what it frees
  bool victims_due_ = false;      // not chosen yet for this window
  std::vector<std::pair<std::uint64_t, BlockIndex>> victims_;  // with their arrivals, the first to leave at the back
};

}  // namespace ebb
