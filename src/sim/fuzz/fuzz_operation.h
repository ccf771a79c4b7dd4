// FuzzOperation: one thing that a fuzzer's program does, as data: what, and the dice for how. It depends on the dice of
// no other operation, so that a program from which some are taken away still does the same with the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ebb {

enum class FuzzAction : std::uint8_t {
  kAllocate,
  kFree,
  kWrite,
  kRead,
  kLaunch,
  kRetire,
  kQueue,         // a launch to come
  kRunQueued,     // the oldest of those
  kForgetQueued,  // it will not run after all
  kTouchElsewhere,
  kAdopt,
  kMap,
  kRenew,
  kForetell,
  kTrain,  // some iterations that do the same
  kSmallBytes,
  kMakeFrame,  // before it is needed
  kFork,
  kChildEnds,
  kPin,
  kUnpin,
  kTurn,    // the mover goes on
  kSettle,  // until nothing is under way
  kSetBudget,
};
inline constexpr std::size_t kFuzzActions = 24;
inline constexpr std::array<std::string_view, kFuzzActions> kFuzzActionNames{
    "allocate",        "free",  "write", "read",  "launch",   "retire",    "queue",       "run_queued", "forget_queued",
    "touch_elsewhere", "adopt", "map",   "renew", "foretell", "train",     "small_bytes", "make_frame", "fork",
    "child_ends",      "pin",   "unpin", "turn",  "settle",   "set_budget"};

constexpr std::string_view name(FuzzAction action) { return kFuzzActionNames[static_cast<std::size_t>(action)]; }

constexpr std::optional<FuzzAction> fuzz_action_named(std::string_view name) {
  for (std::size_t i = 0; i < kFuzzActions; ++i) {
    if (kFuzzActionNames[i] == name) return FuzzAction(i);
  }
  return std::nullopt;
}

struct FuzzOperation {
  FuzzAction action = FuzzAction::kAllocate;
  std::uint32_t dice = 0;

  friend constexpr bool operator==(const FuzzOperation&, const FuzzOperation&) = default;
};

}  // namespace ebb
