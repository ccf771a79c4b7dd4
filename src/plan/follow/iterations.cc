// See iterations.h.
#include "plan/follow/iterations.h"

#include <algorithm>
#include <utility>

namespace ebb {

// An empty slot, or that of the kind that has not been run for longest.
std::uint32_t Iterations::slot_for(const Recording& recording) {
  std::size_t events = recording.size();
  for (const Entry& entry : entries_) events += entry.recording.size();
  if (entries_.size() < kKindsMax && events <= kEventsMax) {
    entries_.emplace_back();
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [](const Entry& left, const Entry& right) { return left.used < right.used; });
  if (oldest == entries_.end()) {
    entries_.emplace_back();
    return 0;
  }
  const auto slot = static_cast<std::uint32_t>(oldest - entries_.begin());
  for (Entry& entry : entries_) {
    if (entry.successor == slot) entry.successor = kNone;
  }
  if (latest_ == slot) latest_ = kNone;
  if (foretold_now_ == slot) foretold_now_ = kNone;
  oldest->successor = kNone;
  return slot;
}

void Iterations::foretell(const Recording& recording) {
  foretold_ = slot_for(recording);
  entries_[foretold_].recording = recording;
  entries_[foretold_].recording.finish();
  entries_[foretold_].version = entries_[foretold_].used = ++clock_;
}

std::uint32_t Iterations::skip() { return foretold_now_ = std::exchange(foretold_, kNone); }

std::uint32_t Iterations::add(Recording& recording, bool& known) {
  skip();
  ++clock_;
  recording.finish();
  std::uint32_t kind = kNone;
  for (std::uint32_t i = 0; i < entries_.size() && kind == kNone; ++i) {
    if (recording.same_events(entries_[i].recording)) kind = i;
  }
  known = kind != kNone;
  if (known) {
    recording.smooth(entries_[kind].recording);
  } else {
    kind = slot_for(recording);
    entries_[kind].version = clock_;
  }
  std::swap(entries_[kind].recording, recording);
  entries_[kind].used = clock_;
  if (kind == latest_) {
    ++in_a_row_;
    return kind;
  }
  if (latest_ != kNone) {
    entries_[latest_].successor = kind;
    entries_[latest_].in_a_row = in_a_row_;
  }
  latest_ = kind;
  in_a_row_ = 1;
  return kind;
}

void Iterations::cut(std::uint32_t kind, Recording::Position first) {
  Entry& entry = entries_[kind];
  entry.recording = entry.recording.from(first);
  entry.version = ++clock_;
}

std::uint32_t Iterations::expected() const {
  if (foretold_now_ != kNone) return foretold_now_;
  const Entry& latest = entries_[latest_];
  return latest.successor == kNone || latest.in_a_row != in_a_row_ ? latest_ : latest.successor;
}

std::uint32_t Iterations::that_begins_as(const Recording& recording, std::uint32_t besides) const {
  std::uint32_t best = kNone;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (i == besides || !entries_[i].recording.begins_as(recording)) continue;
    if (best == kNone || entries_[i].used > entries_[best].used) best = i;
  }
  return best;
}

}  // namespace ebb
