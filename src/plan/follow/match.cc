// Follower: where in the plan the program is, event by event. What is not the expected event is looked for ahead. A
// launch is known by tensors that are older than the iteration: its layer is the one with these weights. Operators and
// sizes alone repeat in every layer, and one of them taken for a later one would pass over all in between.
#include <algorithm>

#include "plan/follow/follower.h"

namespace ebb {
namespace {

// How far ahead, in events.
constexpr Recording::Position kLaunchWindow = 256;
constexpr Recording::Position kNear = 16;  // by operator or size alone
constexpr std::uint32_t kMissesMax = 256;  // in a row: the program does something else
constexpr std::uint32_t kTellingMiss = 4;  // so many a launch counts for that tells where it belongs
constexpr std::uint32_t kUsesMax = 16;     // in an iteration: what is used more often belongs to no place in it
constexpr std::uint32_t kSwitchesMax = 8;  // searches for another kind in one iteration

}  // namespace

// `touches`: none for an allocation.
Recording::Position Follower::match(std::uint64_t signature, std::uint64_t op, std::span<const Touch> touches) {
  // A free is not waited for: freed() has told of it, or it is late.
  Position expected = cursor_;
  while (expected < plan().size() && plan().event(expected).kind == Recording::Kind::kFree) ++expected;
  if (expected < plan().size() && plan().event(expected).signature == signature) {
    misses_ = 0;
    cursor_ = expected + 1;
    return expected;
  }
  const bool launch = !touches.empty();
  if (switch_kind() || (launch && begin_later())) return cursor_ - 1;
  const bool telling = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
    if (recording_.made_here(touch.allocation)) return false;
    const std::uint32_t reference = plan().find(touch.allocation);
    return reference != Recording::kNone && uses_[reference] <= kUsesMax;
  });
  const Position found =
      launch ? find_launch(expected, signature, op, touches, telling) : find_allocation(expected, signature);
  if (found != Recording::kNever) {
    misses_ = 0;
    cursor_ = found + 1;
    return found;
  }
  misses_ += telling ? kTellingMiss : 1;
  if (misses_ >= kMissesMax) {
    following_ = false;
    ++deviations_;
  }
  return found;
}

Recording::Position Follower::find_allocation(Position from, std::uint64_t signature) const {
  const Position end = std::min(plan().size(), from + kNear);
  for (Position position = from; position < end; ++position) {
    if (plan().event(position).signature == signature) return position;
  }
  return Recording::kNever;
}

// The first launch on the same older tensors; or else one that may be about the same. `telling`: there are some that
// the plan knows, and that are not used everywhere.
Recording::Position Follower::find_launch(Position from, std::uint64_t signature, std::uint64_t op,
                                          std::span<const Touch> touches, bool telling) const {
  const Position end = std::min(plan().size(), from + (telling ? kLaunchWindow : kNear));
  Position similar = Recording::kNever;
  for (Position position = from; position < end; ++position) {
    const Recording::Event& event = plan().event(position);
    if (event.kind != Recording::Kind::kLaunch) continue;
    if (event.op != op) {
      if (!telling && kinship(event, {}) == Kinship::kOther) break;  // that one is not passed over for so little
      continue;
    }
    const Kinship kin = kinship(event, touches);
    if (kin == Kinship::kSame) return position;
    if (kin == Kinship::kUnknown && similar == Recording::kNever && event.signature == signature) similar = position;
  }
  return similar;
}

void Follower::count_uses() {
  uses_.assign(plan().references(), 0);
  planned_ = 0;
  for (Position position = 0; position < plan().size(); ++position) {
    for (const Recording::Use& use : plan().uses(plan().event(position))) {
      ++uses_[use.reference];
      planned_ += is_old(use.reference) ? use.blocks : 0;
    }
  }
}

// Whether a launch of the plan uses one of these older tensors, or only others; unknown where it uses none, or one that
// is not foreseen or used everywhere.
Follower::Kinship Follower::kinship(const Recording::Event& event, std::span<const Touch> touches) const {
  bool foreseen = false;
  for (const Recording::Use& use : plan().uses(event)) {
    if (plan().made_here(plan().reference(use.reference).serial) || unforeseen(use.reference)) continue;
    if (uses_[use.reference] > kUsesMax) continue;
    const std::uint64_t serial = resolve(use.reference, false);
    foreseen |= serial != 0;
    for (const Touch& touch : touches) {
      if (touch.allocation == serial) return Kinship::kSame;
    }
  }
  return foreseen ? Kinship::kOther : Kinship::kUnknown;
}

// What a launch touches, in the order of the uses of a launch of the plan that has more or fewer; what that uses and
// this does not is allocation 0.
std::span<const Touch> Follower::align(std::span<const Recording::Use> uses, std::span<const Touch> touches) {
  aligned_.assign(uses.size(), {});
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::uint64_t serial = resolve(uses[i].reference, false);
    const auto touch = std::find_if(touches.begin(), touches.end(),
                                    [&](const Touch& each) { return serial != 0 && each.allocation == serial; });
    if (touch != touches.end()) aligned_[i] = *touch;
  }
  return aligned_;
}

// The program does not what was expected: if all that it has done in this iteration, the latest event included, is how
// another kind begins, that is the one.
bool Follower::switch_kind() {
  if (switches_ >= kSwitchesMax) return false;
  ++switches_;
  const std::uint32_t other = iterations_.that_begins_as(recording_, kind_);
  if (other == Iterations::kNone) return false;
  ++deviations_;
  follow(other);
  return true;
}

// The second iteration is not like the beginning of the first, but like what came later there, after the setup: the
// recording is cut. Only launches are compared: what this one frees, that one made.
bool Follower::begin_later() {
  if (iterations_over_ != 1 || launches_ < try_later_ || iterations_.was_foretold(kind_)) return false;
  try_later_ = 2 * launches_;
  const Position first = plan().begin_of(recording_);
  if (first == Recording::kNever || first == 0) return false;
  iterations_.cut(kind_, first);
  misses_ = 0;
  count_uses();
  bind_launches();
  rebuild();
  began(true);
  return true;
}

}  // namespace ebb
