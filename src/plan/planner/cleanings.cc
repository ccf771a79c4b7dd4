// See cleanings.h.
#include "plan/planner/cleanings.h"

#include <algorithm>

namespace ebb {
namespace {

using Position = Recording::Position;

constexpr std::uint32_t kNone = 0xffffffff;
// A cleaning begins when at least so many blocks could pass its lane before its tensor is used again: who uses it while
// it is written has to wait.
constexpr double kMarginBlocks = 8;

// What happens to one piece: it is touched, or content is made in it by a launch that does not touch it.
struct Moment {
  Position event = 0;
  std::uint32_t touch = kNone;
  std::uint32_t leaves = 0;  // blocks that leave after it
};

std::vector<std::vector<Moment>> moments_of(const Recording& recording, const Pieces& pieces,
                                            std::span<const PieceAbsence> absences) {
  std::vector<std::vector<Moment>> all(pieces.size());
  auto leaving = absences.begin();
  for (Position event = 0; event < recording.size(); ++event) {
    for (const Pieces::Change& change : pieces.changes(event)) {
      if (change.fate != Pieces::Fate::kDead) all[change.piece].push_back({event});
    }
    for (std::uint32_t i = pieces.first_touch(event); i < pieces.end_touch(event); ++i) {
      const bool leaves = leaving != absences.end() && leaving->touch == i;
      all[pieces.touch(i).piece].push_back({event, i, leaves ? leaving->blocks : 0});
      if (leaves) ++leaving;
    }
  }
  return all;
}

class Cleaner {
 public:
  Cleaner(const Recording& recording, const Pieces& pieces, std::span<const PieceAbsence> absences,
          std::span<const double> start_ns, const std::array<double, kTiersBelow>& block_ns)
      : recording_(recording),
        pieces_(pieces),
        start_ns_(start_ns),
        block_ns_(block_ns),
        moments_(moments_of(recording, pieces, absences)) {}

  // Back from a leaving to the launch that made what leaves: between any two uses on the way it can be cleaned.
  void clean(PieceAbsence& leaving, std::uint32_t index) {
    leaving.unwritten = 0;
    const std::uint32_t piece = pieces_.touch(leaving.touch).piece;
    const std::vector<Moment>& moments = moments_[piece];
    auto now = std::find_if(moments.begin(), moments.end(), [&](auto& each) { return each.touch == leaving.touch; });
    std::uint64_t back = 0;     // events from there to the leaving
    std::uint32_t covered = 0;  // blocks that have left on the way: there is a copy of them
    found_.clear();
    while (!pieces_.touch(now->touch).written) {
      const bool wraps = now == moments.begin();
      if (wraps && !pieces_[piece].carried) break;
      const auto before = std::prev(wraps ? moments.end() : now);
      const std::uint64_t gap = now->event + (wraps ? std::uint64_t{recording_.size()} : 0) - before->event;
      back += gap;
      if (back >= recording_.size()) return;  // nobody changes it: its copy is always good
      covered = std::max(covered, before->leaves);
      if (covered >= leaving.blocks) return;
      if (before->touch == kNone) break;
      if (gap > 0) note(leaving, *before, gap, back);
      now = before;
    }
    leaving.unwritten = leaving.blocks - covered;
    for (Cleaning& cleaning : found_) {
      cleaning.blocks -= covered;
      cleaning.absence = index;
      all_.push_back(cleaning);
    }
  }

  std::vector<Cleaning> take() {
    std::stable_sort(all_.begin(), all_.end(), [](auto& left, auto& right) { return left.use < right.use; });
    return std::move(all_);
  }

 private:
  // Between the use `from` and the next one, `gap` events later; the leaving is `ahead` events later.
  void note(const PieceAbsence& leaving, const Moment& from, std::uint64_t gap, std::uint64_t ahead) {
    const Pieces::Touch& touch = pieces_.touch(from.touch);
    const std::uint64_t next = from.event + gap;
    const double latest_ns = start_ns_[next] - kMarginBlocks * block_ns_[index_below(leaving.tier)];
    Cleaning cleaning;
    const auto times = start_ns_.subspan(from.event, gap + 1);
    const auto later = std::upper_bound(times.begin(), times.end(), latest_ns);
    cleaning.until = from.event + static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(later - times.begin(), 1) - 1);
    if (cleaning.until <= from.event) return;
    cleaning.use = touch.use;
    cleaning.first_block = pieces_.offset(from.event, touch) + pieces_[touch.piece].blocks.count - leaving.blocks;
    cleaning.blocks = leaving.blocks;
    cleaning.tier = leaving.tier;
    cleaning.leaves = from.event + ahead;
    cleaning.after = from.event;
    found_.push_back(cleaning);
  }

  const Recording& recording_;
  const Pieces& pieces_;
  std::span<const double> start_ns_;
  const std::array<double, kTiersBelow>& block_ns_;
  std::vector<std::vector<Moment>> moments_;  // by piece
  std::vector<Cleaning> found_;
  std::vector<Cleaning> all_;
};

constexpr auto kLeavesFirst = [](const auto& left, const auto& right) { return left.leaves > right.leaves; };

}  // namespace

std::vector<Cleaning> make_cleanings(const Recording& recording, const Pieces& pieces, std::span<PieceAbsence> absences,
                                     std::span<const double> start_ns,
                                     const std::array<double, kTiersBelow>& block_ns) {
  Cleaner cleaner(recording, pieces, absences, start_ns, block_ns);
  for (std::uint32_t i = 0; i < absences.size(); ++i) cleaner.clean(absences[i], i);
  return cleaner.take();
}

void CleaningQueue::clear() {
  for (auto& queue : queues_) queue.clear();
}

void CleaningQueue::forget_before(std::uint64_t event) {
  for (auto& queue : queues_) {
    std::erase_if(queue, [&](const Entry& entry) { return entry.until < event; });
    std::make_heap(queue.begin(), queue.end(), kLeavesFirst);
  }
}

void CleaningQueue::add(const Cleaning& cleaning, BlockRange tensor, std::uint64_t base) {
  const std::uint32_t first = std::min(cleaning.first_block, tensor.count);
  Entry entry;
  entry.leaves = base + cleaning.leaves;
  entry.until = base + cleaning.until;
  entry.blocks = {BlockIndex(tensor.first.value() + first), std::min(cleaning.blocks, tensor.count - first)};
  auto& queue = queues_[index_below(cleaning.tier)];
  queue.push_back(entry);
  std::push_heap(queue.begin(), queue.end(), kLeavesFirst);
}

void CleaningQueue::pop(std::vector<Entry>& queue) {
  std::pop_heap(queue.begin(), queue.end(), kLeavesFirst);
  queue.pop_back();
}

}  // namespace ebb
