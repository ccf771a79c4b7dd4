// The list of policies.
#include "plan/policy.h"

#include "plan/follower.h"
#include "plan/foresight.h"
#include "plan/recency.h"

namespace ebb {

std::unique_ptr<Policy> make_policy(std::string_view name) {
  if (name == "on_demand") return std::make_unique<OnDemand>();
  if (name == "window") return std::make_unique<Window>();
  if (name == "belady") return std::make_unique<Belady>();
  if (name == "foresight") return std::make_unique<Foresight>();
  return nullptr;
}

}  // namespace ebb
