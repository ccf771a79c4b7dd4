// See draft.h. Here: which pieces are absent, and how much of each.
#include "plan/drafting/draft.h"

#include <algorithm>
#include <cmath>

namespace ebb {
namespace {

using Position = Recording::Position;

constexpr int kRounds = 3;
constexpr double kUnused = 0.6;  // of an iteration: so long is state not used

std::vector<double> start_times(const Recording& recording) {
  const std::size_t size = recording.size();
  std::vector<double> start_ns(2 * size + 1, 0);
  for (std::size_t i = 0; i + 1 < start_ns.size(); ++i) {
    const std::uint64_t ns = recording.event(static_cast<Position>(i < size ? i : i - size)).ns;
    start_ns[i + 1] = start_ns[i] + std::max<double>(static_cast<double>(ns), 1.0);
  }
  return start_ns;
}

}  // namespace

Drafter::Drafter(const Recording& recording, const PlanLimits& limits)
    : limits_(limits),
      size_(recording.size()),
      pieces_(recording),
      computed_ns_(start_times(recording)),
      start_ns_(computed_ns_),
      items_(pieces_.size()),
      early_(size_) {
  find_state();
  find_over();
}

void Drafter::find_state() {
  std::vector<bool> written(pieces_.size(), false), unused(pieces_.size(), false);
  std::uint64_t most = 0;  // blocks of a launch
  for (Position event = 0; event < size_; ++event) {
    std::uint64_t used = 0;
    for (std::uint32_t i = pieces_.first_touch(event); i < pieces_.end_touch(event); ++i) {
      const Pieces::Touch& touch = pieces_.touch(i);
      used += blocks_of(touch.piece);
      if (touch.written) written[touch.piece] = true;
      if (!touch.needed) continue;
      const double ns = computed_ns_[touch.next] - computed_ns_[event + std::size_t{1}];
      if (ns > kUnused * computed_ns_[size_]) unused[touch.piece] = true;
    }
    most = std::max(most, used);
  }
  const bool fits = most <= limits_.frames;  // nothing stays beside a launch that is larger than memory
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    state_.push_back(fits && pieces_[i].carried && written[i] && unused[i]);
    state_blocks_ += state_[i] ? blocks_of(i) : 0;
  }
}

// Twice from the end, for what is over in the next iteration.
void Drafter::find_over() {
  over_.assign(pieces_.touches_total(), false);
  std::vector<std::uint32_t> later(pieces_.size(), kNone);  // the touch behind
  for (std::uint32_t i = 0; i < 2 * size_; ++i) {
    const Position event = size_ - 1 - i % size_;
    for (std::uint32_t k = pieces_.first_touch(event); k < pieces_.end_touch(event); ++k) {
      const Pieces::Touch& touch = pieces_.touch(k);
      const std::uint32_t next = later[touch.piece];
      if (touch.needed) {
        over_[k] = next != kNone && !pieces_.touch(next).written && over_[next];
        has_over_ = has_over_ || over_[k];
      } else if (touch.next != Pieces::kNever) {
        over_[k] = computed_ns_[touch.next] - computed_ns_[event + std::size_t{1}] > block_ns(Tier::kFlash);
      }
      later[touch.piece] = k;
    }
  }
}

// A part of the blocks `of` each piece; parts of blocks add up from piece to piece.
template <typename Of>
std::vector<std::uint32_t> Drafter::part_of_each(double part, Of&& of) const {
  std::vector<std::uint32_t> parts(pieces_.size(), 0);
  double sum = 0;
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    const double before = std::floor(sum);
    sum += part * of(i);
    parts[i] = static_cast<std::uint32_t>(std::floor(sum) - before);
  }
  return parts;
}

std::vector<std::uint32_t> Drafter::staying(double state_share) const {
  const double all = std::max(static_cast<double>(state_blocks_), 1.0);
  return part_of_each(std::min(1.0, state_share * limits_.frames / all),
                      [&](std::uint32_t i) { return state_[i] ? blocks_of(i) : 0; });
}

// What returns needs its frames before it is used. How long before is known only from a draft, so there are some.
void Drafter::draft(const Taste& taste) {
  taste_ = taste;
  floors_ = part_of_each(1 - taste_.absent_share, [&](std::uint32_t i) { return blocks_of(i); });
  staying_ = staying(taste_.state_share);
  draft_rounds();
}

void Drafter::shift(std::span<const PieceAbsence> absences, const std::vector<bool>& urgent, double blocks) {
  enum : std::uint8_t { kNotAbsent, kIdle, kUrgent };
  std::vector<std::uint8_t> kinds(pieces_.size(), kNotAbsent);
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) floors_[i] = blocks_of(i);
  for (std::size_t i = 0; i < absences.size(); ++i) {
    const std::uint32_t piece = pieces_.touch(absences[i].touch).piece;
    floors_[piece] = std::min(floors_[piece], blocks_of(piece) - absences[i].blocks);
    kinds[piece] = std::max<std::uint8_t>(kinds[piece], urgent[i] ? kUrgent : kIdle);
  }
  const auto away = [&](std::uint32_t i) { return kinds[i] == kUrgent ? blocks_of(i) - floors_[i] : 0; };
  const auto there = [&](std::uint32_t i) { return kinds[i] == kUrgent ? 0 : floors_[i]; };
  double all_away = 0, all_there = 0;
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    all_away += away(i);
    all_there += there(i);
  }
  const double moved = std::min({blocks, all_away, all_there});
  const auto more = part_of_each(moved / std::max(all_away, 1.0), away);
  const auto less = part_of_each(moved / std::max(all_there, 1.0), there);
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) floors_[i] += more[i] - less[i];
  draft_rounds();
}

void Drafter::draft_rounds() {
  for (auto& touches : early_) touches.clear();
  start_ns_ = computed_ns_;
  for (int round = 0; round < kRounds; ++round) {
    begin();
    for (const bool steady : {false, true}) run(steady);
    finish();
    choose_tiers();
    schedule();
    if (taste_.paced) pace();
  }
}

// Belady's rule. Before all others goes what is not used again until it is freed, because that never comes back; unless
// it is freed before it could be gone, and the write would be for nothing.
void Drafter::queue(std::uint32_t piece) {
  Item& item = items_[piece];
  if (!item.live || item.present == 0) return;
  item.rank = item.next + (dies_late(item) ? 2 * std::uint64_t{size_} : 0);
  if (item.next != Pieces::kNever && item.next > now_) {
    const double factor = std::max(item.old ? taste_.old_factor : 1, leaves_when_over(item) ? taste_.over_factor : 1);
    item.rank += static_cast<std::uint64_t>((factor - 1) * static_cast<double>(item.next - now_));
  }
  if (item.present <= staying_[piece]) item.rank = 0;
  if (item.present > floors_[piece]) item.rank += 4 * std::uint64_t{size_};  // before all that has no more than that
  idle_.emplace(item.rank, piece);
}

bool Drafter::dies_late(const Item& item) const {
  if (item.touch == kNone || item.next == Pieces::kNever) return false;
  const Pieces::Touch& touch = pieces_.touch(item.touch);
  if (touch.needed) return false;
  const double left_ns = start_ns_[touch.next] - start_ns_[item.touched_at + std::size_t{1}];
  return left_ns > item.present * block_ns(limits_.host_blocks > 0 ? Tier::kHost : Tier::kFlash);
}

// Everything that is there before the iteration is in memory, as far as is known.
void Drafter::begin() {
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    items_[i] = {};
    items_[i].live = pieces_[i].carried;
    items_[i].present = pieces_[i].carried ? blocks_of(i) : 0;
  }
}

// One iteration in the order of the program: pieces come when they are used, and leave when there is no room.
void Drafter::run(bool steady) {
  now_ = 0;
  idle_.clear();
  present_ = live_ = 0;
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (item.live != pieces_[i].carried) {
      item = {};
      item.live = pieces_[i].carried;
      item.present = item.live ? blocks_of(i) : 0;
    }
    item.next = pieces_[i].first;
    item.old = item.live;
    present_ += item.present;
    live_ += item.live ? blocks_of(i) : 0;
    queue(i);
  }
  absences_.clear();
  by_touch_.assign(pieces_.touches_total(), kNone);
  live_blocks_.assign(size_, 0);
  for (Position position = 0; position < size_; ++position, ++now_) {
    return_early(position);
    for (const Pieces::Change& each : pieces_.changes(position)) change(each);
    launch(position);
    shrink(steady);
    for (std::uint32_t i = pieces_.first_touch(position); i < pieces_.end_touch(position); ++i) {
      queue(pieces_.touch(i).piece);
    }
    live_blocks_[position] = live_;
  }
}

void Drafter::change(const Pieces::Change& change) {
  Item& item = items_[change.piece];
  unqueue(change.piece);
  if (change.fate == Pieces::Fate::kJoined) {
    // Not queued: it stays for the launch that makes the content of the new tensor, which is not recorded as a use.
    present_ += blocks_of(change.piece) - item.present;
    item.present = blocks_of(change.piece);
    item.touch = kNone;
    item.old = false;
    item.next = change.next;
    return;
  }
  present_ -= item.present;
  live_ -= item.live ? blocks_of(change.piece) : 0;
  item = {};
  if (change.fate == Pieces::Fate::kDead) return;
  item.live = true;
  item.present = blocks_of(change.piece);
  item.next = change.next;
  present_ += item.present;
  live_ += item.present;
  queue(change.piece);
}

// What it uses is present and stays out of idle_ until the launch has all.
void Drafter::launch(Position position) {
  for (std::uint32_t i = pieces_.first_touch(position); i < pieces_.end_touch(position); ++i) {
    const Pieces::Touch& touch = pieces_.touch(i);
    Item& item = items_[touch.piece];
    unqueue(touch.piece);
    if (!item.live) live_ += blocks_of(touch.piece);
    item.live = true;
    item.returning = false;
    present_ += blocks_of(touch.piece) - item.present;
    item.present = blocks_of(touch.piece);
    item.touch = i;
    item.old = item.old && !touch.written;
    item.touched_at = position;
    item.next = touch.next;
  }
}

// Pieces whose fetch begins at this event, by the plan made before.
void Drafter::return_early(Position position) {
  for (const std::uint32_t touch : early_[position]) {
    const std::uint32_t piece = pieces_.touch(touch).piece;
    Item& item = items_[piece];
    if (!item.live || item.touch != touch || item.present == blocks_of(piece)) continue;
    unqueue(piece);
    present_ += blocks_of(piece) - item.present;
    item.present = blocks_of(piece);
    item.returning = true;
    queue(piece);
  }
}

// What is needed last leaves until the rest fits.
void Drafter::shrink(bool steady) {
  const std::uint64_t frames = limits_.frames - std::min(taste_.reserve_blocks, limits_.frames / 2);
  while (present_ > frames && !idle_.empty()) {
    const std::uint32_t piece = std::prev(idle_.end())->second;
    Item& item = items_[piece];
    const std::uint32_t floor = item.present > floors_[piece] ? floors_[piece] : 0;
    const std::uint32_t stays = item.present > staying_[piece] ? staying_[piece] : 0;
    const std::uint32_t there = item.present - std::max(floor, stays);
    const auto leaves = static_cast<std::uint32_t>(std::min<std::uint64_t>(there, present_ - frames));
    unqueue(piece);
    item.present -= leaves;
    present_ -= leaves;
    queue(piece);
    if (!steady || item.returning || item.touch == kNone || item.next == Pieces::kNever) continue;
    std::uint32_t& index = by_touch_[item.touch];
    if (index == kNone) {
      index = static_cast<std::uint32_t>(absences_.size());
      PieceAbsence absence;
      absence.touch = item.touch;
      absence.before = pieces_.touch(item.touch).next;
      absence.needed = pieces_.touch(item.touch).needed;
      absences_.push_back(absence);
    }
    absences_[index].blocks += leaves;
  }
}

// Absences in the order of the touches that they follow, and where they begin.
void Drafter::finish() {
  std::sort(absences_.begin(), absences_.end(),
            [](const PieceAbsence& left, const PieceAbsence& right) { return left.touch < right.touch; });
  Position position = 0;
  for (PieceAbsence& absence : absences_) {
    while (pieces_.end_touch(position) <= absence.touch) ++position;
    absence.after = position;
    absence.blocks = std::min(absence.blocks, blocks_of(pieces_.touch(absence.touch).piece));
    absence.return_from = absence.before;
  }
}

}  // namespace ebb
