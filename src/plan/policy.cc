// The list of policies.
#include "plan/policy.h"

#include <array>

#include "plan/follower.h"
#include "plan/foresight.h"
#include "plan/guide/guide.h"
#include "plan/recency.h"
#include "plan/rivals/deepum.h"
#include "plan/rivals/flashneuron.h"
#include "plan/rivals/g10.h"

namespace ebb {
namespace {

template <typename P>
std::unique_ptr<Policy> make() {
  return std::make_unique<P>();
}

template <G10::Tiers kTiers>
std::unique_ptr<Policy> make_g10() {
  return std::make_unique<G10>(kTiers);
}

constexpr std::array<std::string_view, 9> kNames{"on_demand", "window", "deepum", "flashneuron", "g10_flash",
                                                 "g10_host",  "g10",    "belady", "foresight"};
constexpr std::array<std::unique_ptr<Policy> (*)(), kNames.size()> kMakers{
    make<OnDemand>,
    make<Window>,
    make<DeepUm>,
    make<FlashNeuron>,
    make_g10<G10::Tiers::kFlash>,
    make_g10<G10::Tiers::kHostBesideFlash>,
    make_g10<G10::Tiers::kUnified>,
    make<Belady>,
    make<Foresight>,
};

}  // namespace

bool Policy::take_guide(std::unique_ptr<Guide> /*guide*/) { return false; }

std::span<const std::string_view> policy_names() { return kNames; }

std::unique_ptr<Policy> make_policy(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return kMakers[i]();
  }
  return nullptr;
}

}  // namespace ebb
