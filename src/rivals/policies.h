// Every policy there is, ours and the published systems', by name: what `ebb run --policy` and the simulator offer.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "plan/policy.h"

namespace ebb {

// From the simplest to ours.
std::span<const std::string_view> all_policy_names();
// Null for any other name.
std::unique_ptr<Policy> make_any_policy(std::string_view name);

}  // namespace ebb
