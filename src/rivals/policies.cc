// See policies.h.
#include "rivals/policies.h"

#include <array>

#include "rivals/deepum.h"
#include "rivals/flashneuron.h"
#include "rivals/g10.h"

namespace ebb {
namespace {

constexpr std::array<std::string_view, 9> kNames{"on_demand", "window", "deepum", "flashneuron", "g10_flash",
                                                 "g10_host",  "g10",    "belady", "foresight"};

}  // namespace

std::span<const std::string_view> all_policy_names() { return kNames; }

std::unique_ptr<Policy> make_any_policy(std::string_view name) {
  if (name == "deepum") return std::make_unique<DeepUm>();
  if (name == "flashneuron") return std::make_unique<FlashNeuron>();
  if (name == "g10_flash") return std::make_unique<G10>(G10::Tiers::kFlash);
  if (name == "g10_host") return std::make_unique<G10>(G10::Tiers::kHostBesideFlash);
  if (name == "g10") return std::make_unique<G10>(G10::Tiers::kUnified);
  return make_policy(name);
}

}  // namespace ebb
