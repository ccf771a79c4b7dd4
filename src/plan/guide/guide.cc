// See guide.h.
#include "plan/guide/guide.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ebb {

using Kind = Recording::Kind;

Guide::Guide(Recording recording, Position again_from)
    : recording_(std::move(recording)),
      serials_(recording_.references(), 0),
      maker_(recording_.references(), Recording::kNever),
      again_(recording_.references(), Recording::kNever),
      taken_(recording_.references(), false) {
  Position launch = Recording::kNever;
  for (Position position = 0; position < recording_.size(); ++position) {
    const Recording::Event& event = recording_.event(position);
    if (event.kind == Kind::kAllocation) maker_[event.reference] = launch;
    if (event.kind != Kind::kLaunch) continue;
    launch = position;
    if (position < again_from) continue;
    for (const Recording::Use& use : recording_.uses(event))
      again_[use.reference] = std::min(again_[use.reference], position);
  }
  // What the last step makes is made anew in the next one.
  for (std::uint32_t i = 0; i < recording_.references(); ++i) {
    const Position made = maker_[i];
    again_[i] = again_[i] == Recording::kNever || (made != Recording::kNever && made >= again_from)
                    ? Recording::kNever
                    : again_[i] - again_from;
  }
}

void Guide::bind(std::uint64_t serial, std::uint32_t reference) {
  unbind(serial);
  unbind(serials_[reference]);
  serials_[reference] = serial;
  live_[serial].reference = reference;
}

void Guide::unbind(std::uint64_t serial) {
  Live* const live = find(serial);
  if (live == nullptr || live->reference == Recording::kNone) return;
  serials_[live->reference] = 0;
  live->reference = Recording::kNone;
}

// What a launch makes is allocated while it runs. A kernel may also have scratch memory of the same size; the latest
// counts, until a launch that uses one of them tells which it was.
Guide::Position Guide::allocated(std::uint64_t serial, std::uint64_t bytes) {
  if (serial >= live_.size()) live_.resize(serial + 1);
  live_[serial] = {bytes, Recording::kNone, false};
  std::uint32_t found = Recording::kNone;
  for (Position position = at_; position < recording_.size(); ++position) {
    const Recording::Event& event = recording_.event(position);
    if (event.kind == Kind::kLaunch) break;
    if (event.kind != Kind::kAllocation || recording_.reference(event.reference).bytes != bytes) continue;
    const std::uint64_t other = serials_[event.reference];
    if (other == 0 || (found == Recording::kNone && !live_[other].used)) found = event.reference;
    if (other == 0) break;
  }
  if (found == Recording::kNone) return Recording::kNever;
  bind(serial, found);
  return recording_.reference(found).first;
}

void Guide::freed(std::uint64_t serial) {
  if (find(serial) == nullptr) return;
  unbind(serial);
  live_[serial] = {};
}

// A use of the event that the allocation can be: the one that it is bound to; else one of its size that is free, or if
// `loose` bound to what no launch has used.
std::uint32_t Guide::reference_for(const Recording::Event& event, std::uint64_t serial, bool loose) const {
  const Live& live = live_[serial];
  std::uint32_t found = Recording::kNone;
  for (const Recording::Use& use : recording_.uses(event)) {
    if (use.reference == live.reference) return use.reference;
    if (found != Recording::kNone || taken_[use.reference] || recording_.reference(use.reference).bytes != live.bytes) {
      continue;
    }
    const std::uint64_t other = serials_[use.reference];
    if (other == 0 || (loose && !live_[other].used)) found = use.reference;
  }
  return live.reference == Recording::kNone || (loose && !live.used) ? found : Recording::kNone;
}

// Whether everything that is touched can be what the event uses, or makes, and something of it is known to be, but if
// `loose`. Then references_ has what each is.
bool Guide::fits(Position position, std::span<const Touch> touches, bool loose) {
  const Recording::Event& event = recording_.event(position);
  references_.assign(touches.size(), Recording::kNone);
  std::size_t known = 0;
  bool fit = true;
  for (std::size_t i = 0; i < touches.size() && fit; ++i) {
    const Live* const live = find(touches[i].allocation);
    if (live == nullptr) {
      fit = false;
      break;
    }
    const auto same = std::find_if(touches.begin(), touches.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Touch& touch) { return touch.allocation == touches[i].allocation; });
    const std::uint32_t reference = same != touches.begin() + static_cast<std::ptrdiff_t>(i)
                                        ? references_[static_cast<std::size_t>(same - touches.begin())]
                                        : reference_for(event, touches[i].allocation, loose);
    references_[i] = reference;
    if (reference != Recording::kNone) {
      taken_[reference] = true;
      known += loose || live->reference == reference ? 1 : 0;
    } else {
      fit = live->reference != Recording::kNone && maker_[live->reference] == position;
    }
  }
  for (const Recording::Use& use : recording_.uses(event)) taken_[use.reference] = false;
  return fit && known > 0;
}

// The next event that the launch can be, or kNever.
Guide::Position Guide::search(std::uint64_t op, std::span<const Touch> touches) {
  for (const bool loose : {false, true}) {
    const Position end = std::min(recording_.size(), cursor_ + (loose ? kLooseWindow : kLaunchWindow));
    for (Position position = cursor_; position < end; ++position) {
      const Recording::Event& event = recording_.event(position);
      if (event.kind == Kind::kLaunch && event.op == op && fits(position, touches, loose)) return position;
    }
  }
  return Recording::kNever;
}

Guide::Position Guide::launched(std::uint64_t op, std::span<const Touch> touches) {
  const Position position = search(op, touches);
  if (position == Recording::kNever) {
    ++misses_;
    return position;
  }
  misses_ = 0;
  at_ = cursor_ = position + 1;
  // Nothing but launches tells how far the program is, so what lies before the next one is as good as behind.
  while (cursor_ < recording_.size() && recording_.event(cursor_).kind != Kind::kLaunch) ++cursor_;
  const Recording::Event& event = recording_.event(position);
  for (std::size_t i = 0; i < touches.size(); ++i) {
    live_[touches[i].allocation].used = true;
    if (references_[i] == Recording::kNone || serials_[references_[i]] == touches[i].allocation) continue;
    bind(touches[i].allocation, references_[i]);
  }
  operands_.clear();
  for (const Recording::Use& use : recording_.uses(event)) {
    const auto touch = std::find_if(touches.begin(), touches.end(), [&](const Touch& each) {
      return each.allocation != 0 && each.allocation == serials_[use.reference];
    });
    operands_.push_back(touch == touches.end() ? Touch{} : *touch);
  }
  return position;
}

std::uint64_t Guide::next_need(const Recording::Use& use) const {
  if (use.next != Recording::kNever) return use.next;
  const Recording::Reference& reference = recording_.reference(use.reference);
  if (reference.freed != Recording::kNever) return reference.freed;
  const Position again = again_[use.reference];
  return again == Recording::kNever ? kNeverNeeded : std::uint64_t{recording_.size()} + again;
}

}  // namespace ebb
