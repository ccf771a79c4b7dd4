// flashneuron: FlashNeuron (Bae et al., FAST 2021): activations of the forward pass, in the order in which they are
// made, go to flash until the others fit in memory; on the way back they return one after the other, whenever what is
// there and the largest working set leave room. Weights stay; host memory is not used.
//
// The original refuses a model whose remainder does not fit, and waits for all writes before the backward pass; here
// the pages that are still too many leave on demand, and nothing waits that need not.
#pragma once

#include "rivals/scheduled.h"

namespace ebb {

class FlashNeuron final : public Scheduled {
 public:
  FlashNeuron() : Scheduled(Tier::kFlash) {}

  std::string_view name() const override { return "flashneuron"; }
  std::uint64_t keep(BlockIndex index, const Block& block) const override;

 private:
  static constexpr std::uint64_t kWeight = std::uint64_t{1} << 60;  // above every arrival

  void began(bool changed) override;
  Plan make_schedule(const Recording& recording, const PlanLimits& limits) const override;
  bool returns_displace() const override { return false; }

  std::vector<bool> weight_;  // by block: holds what was there before the iteration
};

}  // namespace ebb
