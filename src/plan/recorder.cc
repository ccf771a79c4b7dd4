// See recorder.h.
#include "plan/recorder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace ebb {
namespace {

using Position = Recording::Position;

// Two iterations in a row as one list of events, cut so that what lies between the cut in the first and the cut in
// the second is one whole iteration.
class Cutter {
 public:
  // `bytes_of`: of an allocation that is alive now; 0 of others.
  Cutter(const Recording& before, const Recording& last, std::function<std::uint64_t(std::uint64_t)> bytes_of)
      : parts_{&before, &last}, bytes_of_(std::move(bytes_of)) {}

  Trace cut(const TraceDraft::Names& names) {
    find_lives();
    const Position at = best_cut();
    for (Position i = at; i < parts_[0]->size(); ++i) add(*parts_[0], i);
    for (Position i = 0; i < std::min(at, parts_[1]->size()); ++i) add(*parts_[1], i);
    return draft_.finish(names);
  }

 private:
  struct Life {
    std::uint64_t bytes = 0;
    std::uint64_t born = 0;      // event of both iterations; 0 if earlier
    std::uint64_t dead = ~0ull;  // likewise; for ever if later
    bool born_here = false;
  };

  void find_lives();
  Position best_cut() const;
  void add(const Recording& part, Position position);

  std::array<const Recording*, 2> parts_;
  std::function<std::uint64_t(std::uint64_t)> bytes_of_;
  std::map<std::uint64_t, Life> lives_;
  TraceDraft draft_;
};

void Cutter::find_lives() {
  std::uint64_t time = 0;
  for (const Recording* part : parts_) {
    for (Position i = 0; i < part->size(); ++i, ++time) {
      const Recording::Event& event = part->event(i);
      for (const Recording::Use& use : part->uses(event)) {
        const Recording::Reference& reference = part->reference(use.reference);
        Life& life = lives_[reference.serial];
        life.bytes = std::max({life.bytes, reference.bytes, bytes_of_(reference.serial)});
      }
      if (event.kind == Recording::Kind::kLaunch) continue;
      const Recording::Reference& reference = part->reference(event.reference);
      Life& life = lives_[reference.serial];
      life.bytes = std::max(life.bytes, reference.bytes);
      if (event.kind == Recording::Kind::kFree) {
        life.dead = time;
      } else {
        life.born = time;
        life.born_here = true;
      }
    }
  }
}

// Where the fewest bytes of what the iteration made live across.
Position Cutter::best_cut() const {
  const std::uint64_t size = parts_[0]->size();
  std::vector<std::int64_t> change(size + 1, 0);
  for (const auto& [serial, life] : lives_) {
    if (!life.born_here || life.born >= size || life.dead == ~0ull) continue;
    const auto bytes = static_cast<std::int64_t>(life.bytes);
    // Alive at cuts in (born, dead], counted from the start of either iteration.
    const std::uint64_t end = std::min(life.dead, size);
    change[life.born + 1] += bytes;
    if (end + 1 <= size) change[end + 1] -= bytes;
    if (life.dead <= size) continue;
    change[0] += bytes;
    if (life.dead - size + 1 <= size) change[life.dead - size + 1] -= bytes;
  }
  std::int64_t across = 0;
  std::int64_t least = 0;
  Position best = 0;
  const std::uint64_t end = std::min<std::uint64_t>(size, parts_[1]->size());
  for (std::uint64_t i = 0; i <= end; ++i) {
    across += change[i];
    if (i > 0 && across >= least) continue;
    least = across;
    best = static_cast<Position>(i);
  }
  return best;
}

void Cutter::add(const Recording& part, Position position) {
  const Recording::Event& event = part.event(position);
  if (event.kind != Recording::Kind::kLaunch) {
    const std::uint64_t serial = part.reference(event.reference).serial;
    if (event.kind == Recording::Kind::kFree) return draft_.free(serial);
    return draft_.allocate(serial, lives_.at(serial).bytes);
  }
  draft_.launch(event.op);
  draft_.run(event.ns);
  for (const Recording::Use& use : part.uses(event)) {
    const std::uint64_t serial = part.reference(use.reference).serial;
    draft_.use(serial, lives_.at(serial).bytes, {use.first_block, use.blocks}, use.written);
  }
}

bool power_of_two(std::uint64_t number) { return (number & (number - 1)) == 0; }

}  // namespace

void Recorder::allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  next_serial_ = allocation + 1;
  live_[allocation] = {blocks, bytes};
  current_.add_allocation(allocation, bytes);
  if (takes_sequence()) sequence_.allocate(allocation, bytes);
  policy_->allocated(allocation, bytes, blocks);
}

void Recorder::mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) {
  live_[allocation] = {blocks, bytes};
  policy_->mapped(allocation, bytes, blocks);
}

void Recorder::freed(std::uint64_t allocation) {
  live_.erase(allocation);
  current_.add_free(allocation);
  if (takes_sequence()) sequence_.free(allocation);
  policy_->freed(allocation);
}

void Recorder::launched(std::uint64_t op, std::span<const Touch> touches) {
  first_blocks_.clear();
  for (const Touch& touch : touches) first_blocks_.push_back(live_.at(touch.allocation).blocks.first);
  if (!touches.empty()) current_.add_launch(op, touches, first_blocks_);
  if (!touches.empty() && takes_sequence()) {
    sequence_.launch(op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const Touch& touch = touches[i];
      const Part part{touch.blocks.first.value() - first_blocks_[i].value(), touch.blocks.count};
      sequence_.use(touch.allocation, live_.at(touch.allocation).bytes, part, touch.written);
    }
  }
  policy_->launched(op, touches);
}

void Recorder::ran(std::uint64_t ns) {
  current_.add_duration(ns);
  if (takes_sequence()) sequence_.run(ns);
  policy_->ran(ns);
}

void Recorder::steps_are_told() {
  if (told_) return;
  told_ = true;
  whole_ = 0;
  sequence_ = {};
}

void Recorder::step() {
  ++steps_;
  grew_ = takes_sequence();
  if (grew_) sequence_.end_iteration();
  std::swap(before_, last_);
  std::swap(last_, current_);
  current_.begin(next_serial_, last_.start());
  if (last_.usable()) ++whole_;
  policy_->step();
}

bool Recorder::due() const {
  if (iterations_ == 1) return has_trace() && steps_ >= kFirst && power_of_two(steps_);
  return grew_ && has_trace() && (is_over() || (sequence_.iterations() > 1 && power_of_two(sequence_.iterations())));
}

Trace Recorder::trace() const {
  if (iterations_ > 1) return sequence_.finish_sequence(names_);
  const auto bytes_of = [&](std::uint64_t serial) {
    const auto found = live_.find(serial);
    return found == live_.end() ? 0 : found->second.bytes;
  };
  return Cutter(before_, last_, bytes_of).cut(names_);
}

}  // namespace ebb
