// See recording.h.
#include "plan/recording.h"

#include <algorithm>

namespace ebb {

void Recording::begin(std::uint64_t start, std::uint64_t previous_start) {
  start_ = start;
  previous_start_ = previous_start;
  events_.clear();
  last_launch_ = kNever;
  uses_.clear();
  references_.clear();
  local_.clear();
  earlier_.clear();
  cuts_.clear();
  first_uses_.clear();
  nexts_.clear();
}

std::uint32_t Recording::find(std::uint64_t serial) const {
  if (made_here(serial)) return serial - start_ < local_.size() ? local_[serial - start_] : kNone;
  const auto found = earlier_.find(serial);
  return found == earlier_.end() ? kNone : found->second;
}

std::uint32_t Recording::find_or_add(std::uint64_t serial, std::uint64_t bytes) {
  if (const std::uint32_t found = find(serial); found != kNone) return found;
  const auto index = references();
  references_.push_back({serial, bytes, {}, kNever, kNever, kNever, kNone, kNone, 0});
  if (!made_here(serial)) {
    earlier_.emplace(serial, index);
  } else {
    if (serial - start_ >= local_.size()) local_.resize(serial - start_ + 1, kNone);
    local_[serial - start_] = index;
  }
  return index;
}

void Recording::add_allocation(std::uint64_t serial, std::uint64_t bytes) {
  if (events_.size() >= kEventsMax) return;
  const std::uint32_t reference = find_or_add(serial, bytes);
  const auto number = static_cast<std::uint32_t>(uses_.size());
  uses_.push_back({reference, 0, kNone, true, kNever, kNone});
  events_.push_back({allocation_signature(bytes), number, 0, reference, Kind::kAllocation, 0, 0});
}

void Recording::add_free(std::uint64_t serial) {
  if (events_.size() >= kEventsMax ||
      ((serial < previous_start_ || serial >= kLastingSerials) && find(serial) == kNone))
    return;
  const std::uint32_t reference = find_or_add(serial, 0);
  references_[reference].freed = size();
  events_.push_back({0, 0, 0, reference, Kind::kFree, 0, 0});
}

void Recording::add_place(std::uint64_t serial, BlockRange blocks) {
  if (const std::uint32_t reference = find(serial); reference != kNone) references_[reference].blocks = blocks;
}

void Recording::add_doubt(std::uint64_t serial, std::uint8_t before, bool same) {
  const std::uint32_t found = find(serial);
  if (found == kNone) return;
  const int after = std::clamp(before + (same ? -1 : int{kDoubtStep}), 0, int{kDoubtMax});
  references_[found].doubt = std::max(references_[found].doubt, static_cast<std::uint8_t>(after));
}

void Recording::set_doubt(std::uint64_t serial, std::uint8_t doubt) {
  if (const std::uint32_t found = find(serial); found != kNone) references_[found].doubt = doubt;
}

void Recording::add_duration(std::uint64_t ns) {
  if (last_launch_ != kNever) events_[last_launch_].ns = ns;
}

void Recording::add_launch(std::uint64_t op, std::span<const Touch> touches, std::span<const BlockIndex> first_blocks) {
  if (events_.size() >= kEventsMax) return;
  const Position position = size();
  last_launch_ = position;
  events_.push_back({launch_signature(op, touches.size()), static_cast<std::uint32_t>(uses_.size()),
                     static_cast<std::uint32_t>(touches.size()), kNone, Kind::kLaunch, 0, op});
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const std::uint32_t index = find_or_add(touches[i].allocation, touches[i].bytes);
    Reference& reference = references_[index];
    reference.bytes = std::max(reference.bytes, touches[i].bytes);
    if (reference.first == kNever) reference.first = position;
    reference.latest = position;
    if (reference.last_use != kNone) uses_[reference.last_use].next = position;
    reference.last_use = static_cast<std::uint32_t>(uses_.size());
    uses_.push_back({index, touches[i].blocks.first.value() - first_blocks[i].value(), touches[i].blocks.count,
                     touches[i].written, kNever, kNone});
  }
}

// Cuts what is used in parts, and links the uses of each piece from behind.
void Recording::finish() {
  std::map<std::uint32_t, Parts> parts;
  for (const Use& use : uses_) {
    const bool part = use.blocks < references_[use.reference].blocks.count;
    if (part) parts[use.reference].add({use.first_block, use.blocks});
  }
  if (parts.empty()) return;
  for (auto& [reference, of] : parts) {
    of.add({0, references_[reference].blocks.count});
    Cuts cuts = of.pieces();
    if (cuts.count() == 1) continue;
    references_[reference].cuts = static_cast<std::uint32_t>(cuts_.size());
    cuts_.push_back({std::move(cuts), cut_pieces()});
    first_uses_.resize(first_uses_.size() + cuts_.back().cuts.count(), kNever);
  }
  for (Position position = size(); position-- > 0;) {
    const auto uses = std::span(uses_).subspan(events_[position].first_use, events_[position].uses);
    for (Use& use : uses) {
      if (!is_cut(use.reference)) continue;
      const auto nexts = static_cast<std::uint32_t>(nexts_.size());
      for_pieces(use, [&](const Piece& piece) { nexts_.push_back(piece.first); });  // the first one after this
      use.nexts = nexts;
    }
    for (const Use& use : uses) {
      if (is_cut(use.reference)) for_pieces(use, [&](const Piece& piece) { first_uses_[piece.index] = position; });
    }
  }
}

void Recording::smooth(const Recording& before) {
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const std::uint64_t ns = before.events_[i].ns;
    if (ns > 0) events_[i].ns = std::min(events_[i].ns, ns + ns / 4);
  }
}

std::uint64_t Recording::duration_ns() const {
  std::uint64_t sum = 0;
  for (const Event& event : events_) sum += event.ns;
  return sum;
}

bool Recording::same_events(const Recording& other) const {
  return events_.size() == other.events_.size() && begins_as(other);
}

bool Recording::begins_as(const Recording& other) const {
  return events_.size() >= other.events_.size() &&
         std::equal(other.events_.begin(), other.events_.end(), events_.begin(),
                    [](const Event& left, const Event& right) {
                      return left.signature == right.signature && left.reference == right.reference;
                    });
}

Recording::Position Recording::begin_of(const Recording& other) const {
  const auto launches_of = [](const Recording& recording) {
    std::vector<Position> launches;
    for (Position i = 0; i < recording.size(); ++i) {
      if (recording.events_[i].kind == Kind::kLaunch) launches.push_back(i);
    }
    return launches;
  };
  const std::vector<Position> here = launches_of(*this);
  const std::vector<Position> there = launches_of(other);
  const auto found = std::search(
      here.begin(), here.end(), there.begin(), there.end(),
      [&](Position left, Position right) { return events_[left].signature == other.events_[right].signature; });
  if (found == here.end()) return kNever;
  return found == here.begin() ? 0 : *std::prev(found) + 1;  // with what is allocated for the first of them
}

Recording Recording::from(Position first) const {
  Recording tail;
  std::uint64_t start = start_;
  for (Position i = 0; i < first; ++i) {
    if (events_[i].kind == Kind::kAllocation) start = references_[events_[i].reference].serial + 1;
  }
  tail.begin(start, start);
  std::vector<Touch> touches;
  std::vector<BlockIndex> first_blocks;
  for (Position i = first; i < size(); ++i) {
    const Event& event = events_[i];
    if (event.kind == Kind::kLaunch) {
      touches.clear();
      first_blocks.clear();
      for (const Use& use : uses(event)) {
        const Reference& reference = references_[use.reference];
        first_blocks.push_back(reference.blocks.first);
        touches.push_back({reference.serial, reference.bytes, use.of(reference.blocks), use.written});
      }
      tail.add_launch(event.op, touches, first_blocks);
      tail.add_duration(event.ns);
      for (const Use& use : uses(event)) {
        tail.add_place(references_[use.reference].serial, references_[use.reference].blocks);
      }
      continue;
    }
    const Reference& reference = references_[event.reference];
    if (event.kind == Kind::kFree) {
      tail.add_free(reference.serial);
    } else {
      tail.add_allocation(reference.serial, reference.bytes);
    }
    tail.add_place(reference.serial, reference.blocks);
  }
  tail.finish();
  return tail;
}

Recording::Position Recording::first_use_after(std::uint64_t serial) const {
  if (!made_here(serial)) return kNever;
  const std::uint32_t carried = find(previous_start_ + (serial - start_));
  return carried == kNone || previous_start_ + (serial - start_) >= start_ ? kNever : references_[carried].first;
}

Recording::Position Recording::freed_after(std::uint64_t serial) const {
  if (!made_here(serial)) return kNever;
  const std::uint32_t carried = find(previous_start_ + (serial - start_));
  return carried == kNone || previous_start_ + (serial - start_) >= start_ ? kNever : references_[carried].freed;
}

}  // namespace ebb
