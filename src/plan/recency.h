// The two policies without foresight.
//
// on_demand: naive unified memory. Launches are not listened to; a block comes when it is touched, and the one that
// came longest ago leaves first.
// window: everything that an announced launch needs comes in one batch before it starts, the least recently used block
// leaves first, a reserve of frames is kept free. With queued launches this is the prefetch of PUMP (Lin et al.,
// ASP-DAC 2022, section III); in eager PyTorch the window is one operator.
#pragma once

#include "plan/policy.h"

namespace ebb {

class OnDemand final : public Policy {
 public:
  std::string_view name() const override { return "on_demand"; }
  bool listens() const override { return false; }
};

class Window final : public Policy {
 public:
  std::string_view name() const override { return "window"; }
  bool listens() const override { return true; }
};

}  // namespace ebb
