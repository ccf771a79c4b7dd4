// g10, the rival: G10 as it was published (Zhang et al., MICRO 2023): whole tensors move as its planner says
// (g10_planner.h); what that leaves over is paged on demand, first come, first out, to host memory.
// g10_flash: without host memory (G10-GDS). g10_host: with host memory beside flash rather than behind one link, and
// only for what the plan sends there (G10-Host).
#pragma once

#include "rivals/g10_planner.h"
#include "rivals/scheduled.h"

namespace ebb {

class G10 final : public Scheduled {
 public:
  enum class Tiers : std::uint8_t { kUnified, kFlash, kHostBesideFlash };

  explicit G10(Tiers tiers) : Scheduled(tiers == Tiers::kUnified ? Tier::kHost : Tier::kFlash), tiers_(tiers) {}

  std::string_view name() const override {
    return tiers_ == Tiers::kUnified ? "g10" : tiers_ == Tiers::kFlash ? "g10_flash" : "g10_host";
  }

 private:
  Plan make_schedule(const Recording& recording, const PlanLimits& limits) const override {
    G10Limits g10{limits, tiers_ == Tiers::kHostBesideFlash};
    if (tiers_ == Tiers::kFlash) g10.plan.host_blocks = 0;
    return make_g10_plan(recording, g10);
  }
  bool returns_displace() const override { return true; }

  Tiers tiers_;
};

}  // namespace ebb
