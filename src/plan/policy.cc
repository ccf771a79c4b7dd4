// The list of policies.
#include "plan/policy.h"

#include "plan/follow/follower.h"
#include "plan/foresight.h"
#include "plan/guide/guide.h"
#include "plan/recency.h"

namespace ebb {

bool Policy::take_guide(std::unique_ptr<Guide> /*guide*/) { return false; }

std::unique_ptr<Policy> make_policy(std::string_view name) {
  if (name == "on_demand") return std::make_unique<OnDemand>();
  if (name == "window") return std::make_unique<Window>();
  if (name == "belady") return std::make_unique<Belady>();
  if (name == "foresight") return std::make_unique<Foresight>();
  return nullptr;
}

}  // namespace ebb
