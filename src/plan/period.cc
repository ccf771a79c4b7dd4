// See period.h.
#include "plan/period.h"

#include <algorithm>

namespace ebb {
namespace {

constexpr std::uint32_t kMissesMax = 1024;       // launches in a row that are not the expected ones: it has changed
constexpr std::uint64_t kObserveAgainMin = 256;  // launches of the program; then every time that they have doubled

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

constexpr std::uint32_t kLastingTelling = 16;  // launches on lasting tensors by which an iteration is known

// What a launch is known by, and whether it uses something long-lived.
struct Signature {
  std::uint64_t value = 0;
  bool old = false;
};

// Of tensors below, or of lasting ones alone: how many others there are depends on how large they are, as a prompt's
// are and a token's are not.
Signature signature_of(std::uint64_t op, std::span<const Touch> touches, std::uint64_t old_below) {
  Signature signature{mix(op, old_below == 0 ? 0 : touches.size())};
  for (const Touch& touch : touches) {
    if (touch.allocation >= old_below && touch.allocation < kLastingSerials) continue;
    signature.value = mix(signature.value, touch.allocation);
    signature.old = true;
  }
  return signature;
}

}  // namespace

void Period::Observation::add(std::uint64_t signature, bool old) {
  young = old ? 0 : young + 1;
  const auto now = static_cast<std::uint32_t>(seen.size());
  seen.push_back(signature);
  const auto [last, added] = latest.emplace(signature, now);
  const std::uint32_t apart = added ? 0 : now - last->second;
  last->second = now;
  if (distance != 0 && now >= distance && seen[now - distance] == signature) {
    ++repeated;
  } else {
    distance = apart;
    repeated = apart != 0 ? 1 : 0;
  }
}

bool Period::begins(std::uint64_t op, std::span<const Touch> touches, std::uint64_t serial) {
  const Signature lasting = signature_of(op, touches, 0);
  if (launches_ == 0) observation_.old_below = serial;
  ++launches_;
  bool first = false;
  if (length() > 0 && !found_.lasting) first = follow(signature_of(op, touches, found_.old_below).value);
  if (length() > 0 && found_.lasting && lasting.old) first = follow(lasting.value);
  if (lasting.old && (length() == 0 || found_.lasting)) look_for_lasting(lasting.value);
  const bool doubled = launches_ >= kObserveAgainMin && (launches_ & (launches_ - 1)) == 0;
  if (doubled || observation_.seen.size() >= kLaunchesMax || found_.misses >= kMissesMax) {
    observation_ = {};
    observation_.old_below = serial;
    observing_ = true;
    if (found_.misses >= kMissesMax) found_ = {};
  }
  if (!observing_) return first;
  const Signature signature = signature_of(op, touches, observation_.old_below);
  observation_.add(signature.value, signature.old);
  if (!observation_.found()) return first;
  // How many launches an iteration of launches on lasting tensors has in all is known when it has begun twice.
  const bool comparable = !found_.lasting || found_.apart > 0;
  if (comparable && observation_.distance > std::max<std::uint64_t>(length(), found_.apart)) {
    found_ = {};
    found_.old_below = observation_.old_below;
    found_.launches = observation_.last_period();
  }
  observing_ = false;
  observation_ = {};
  return first;
}

void Period::foretell(const Recording& iteration) {
  found_ = {};
  found_.lasting = true;
  std::vector<Touch> touches;
  for (Recording::Position i = 0; i < iteration.size(); ++i) {
    const Recording::Event& event = iteration.event(i);
    touches.clear();
    for (const Recording::Use& use : iteration.uses(event)) {
      touches.push_back({iteration.reference(use.reference).serial, 0, {}, false});
    }
    found_.launches.push_back(signature_of(event.op, touches, 0).value);
  }
  lasting_ = {};
}

void Period::look_for_lasting(std::uint64_t signature) {
  const bool expected = length() > 0 && found_.misses == 0;
  if (expected || lasting_.seen.size() >= kLaunchesMax) lasting_ = {};
  if (expected) return;
  lasting_.add(signature, true);
  if (lasting_.distance < kLaunchesMin || lasting_.repeated < kLastingTelling) return;
  if (lasting_.distance <= length()) return;
  found_ = {};
  found_.lasting = true;
  found_.launches = lasting_.last_period();
  lasting_ = {};
}

// Whether an iteration begins with this launch.
bool Period::follow(std::uint64_t signature) {
  const bool begins = found_.launches.front() == signature;
  const bool expected = found_.launches[found_.position] == signature;
  found_.misses = expected ? 0 : found_.misses + 1;
  // A launch more or less: the beginning of an iteration is where it is taken up again.
  if (!expected && begins) found_.position = 0;
  const bool first = begins && found_.position == 0;
  if (first && found_.began > 0) found_.apart = launches_ - found_.began;
  if (first) found_.began = launches_;
  found_.position = found_.position + 1 < length() ? found_.position + 1 : 0;
  return first;
}

}  // namespace ebb
