// See pieces.h.
#include "plan/drafting/pieces.h"

#include <algorithm>

namespace ebb {

namespace {

using Position = Recording::Position;

// By event: the first launch from there on.
std::vector<Position> next_launches(const Recording& recording) {
  std::vector<Position> next(recording.size());
  Position launch = Recording::kNever;
  for (Position position = recording.size(); position-- > 0;) {
    if (recording.event(position).kind == Recording::Kind::kLaunch) launch = position;
    next[position] = launch;
  }
  return next;
}

}  // namespace

Pieces::Pieces(const Recording& recording) : recording_(recording) {
  cut();
  live();
  link();
}

void Pieces::cut() {
  for (std::uint32_t i = 0; i < recording_.references(); ++i) {
    const BlockRange& blocks = recording_.reference(i).blocks;
    if (blocks.count == 0) continue;
    if (recording_.is_cut(i)) {
      for (const std::uint32_t bound : recording_.bounds(i)) bounds_.push_back(blocks.first.value() + bound);
    }
    bounds_.push_back(blocks.first.value());
    bounds_.push_back(blocks.end().value());
    if (blocks.count < 2) continue;
    // Its first and last block may be shared.
    bounds_.push_back(blocks.first.value() + 1);
    bounds_.push_back(blocks.end().value() - 1);
  }
  std::sort(bounds_.begin(), bounds_.end());
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  for (std::size_t i = 0; i + 1 < bounds_.size(); ++i) {
    Piece piece;
    piece.blocks = {BlockIndex(bounds_[i]), bounds_[i + 1] - bounds_[i]};
    pieces_.push_back(piece);
  }
}

std::uint32_t Pieces::offset(Position event, const Touch& touch) const {
  const Recording::Event& user = recording_.event(event);
  const bool launch = user.kind == Recording::Kind::kLaunch;
  const std::uint32_t tensor = launch ? recording_.uses(user)[touch.use - user.first_use].reference : user.reference;
  return pieces_[touch.piece].blocks.first.value() - recording_.reference(tensor).blocks.first.value();
}

template <typename F>
void Pieces::for_pieces(BlockRange blocks, F&& visit) const {
  if (blocks.count == 0) return;
  const auto found = std::upper_bound(bounds_.begin(), bounds_.end(), blocks.first.value());
  for (auto piece = static_cast<std::uint32_t>(found - bounds_.begin() - 1);
       piece < pieces_.size() && pieces_[piece].blocks.first < blocks.end(); ++piece) {
    visit(piece);
  }
}

// Which pieces come to life and die, and which are used.
void Pieces::live() {
  std::vector<std::uint32_t> alive(pieces_.size(), 0);
  for (std::uint32_t i = 0; i < recording_.references(); ++i) {
    const Recording::Reference& reference = recording_.reference(i);
    if (!recording_.made_here(reference.serial)) for_pieces(reference.blocks, [&](std::uint32_t p) { ++alive[p]; });
  }
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) pieces_[i].carried = alive[i] > 0;
  const std::vector<Position> next_launch = next_launches(recording_);
  bool launched = false;
  for (Position position = 0; position < recording_.size(); ++position) {
    first_touch_.push_back(touches_total());
    first_change_.push_back(static_cast<std::uint32_t>(changes_.size()));
    const Recording::Event& event = recording_.event(position);
    if (event.kind == Recording::Kind::kLaunch) {
      launched = true;
      const auto uses = recording_.uses(event);
      for (std::uint32_t i = 0; i < uses.size(); ++i) {
        const BlockRange& all = recording_.reference(uses[i].reference).blocks;
        if (all.count == 0) continue;
        for_pieces(uses[i].of(all), [&](std::uint32_t piece) {
          touches_.push_back({piece, event.first_use + i, kNever, false, uses[i].written});
        });
      }
      continue;
    }
    note_changes(event, launched && recording_.reference(event.reference).first > next_launch[position], alive);
  }
  first_touch_.push_back(touches_total());
  first_change_.push_back(static_cast<std::uint32_t>(changes_.size()));
}

// `result`: what is allocated has been made by the launch before.
void Pieces::note_changes(const Recording::Event& event, bool result, std::vector<std::uint32_t>& alive) {
  const bool born = event.kind == Recording::Kind::kAllocation;
  for_pieces(recording_.reference(event.reference).blocks, [&](std::uint32_t piece) {
    if (!born && alive[piece] == 0) return;
    if (born) changes_.push_back({piece, alive[piece] == 0 ? Fate::kBorn : Fate::kJoined, kNever});
    if (born && result) touches_.push_back({piece, event.first_use, kNever, false, true});
    alive[piece] += born ? 1 : -1;
    if (alive[piece] == 0) changes_.push_back({piece, Fate::kDead, kNever});
  });
}

// Backward over two iterations: what comes next for each piece.
void Pieces::link() {
  struct Next {
    std::uint64_t event = kNever;
    bool use = false;
  };
  std::vector<Next> upcoming(pieces_.size());
  const Position size = recording_.size();
  for (const bool second : {true, false}) {
    for (Position position = size; position-- > 0;) {
      const std::uint64_t event = position + (second ? std::uint64_t{size} : 0);
      for (std::uint32_t i = first_touch_[position]; i < first_touch_[position + std::size_t{1}]; ++i) {
        touches_[i].next = upcoming[touches_[i].piece].event;
        touches_[i].needed = upcoming[touches_[i].piece].use;
      }
      for (std::uint32_t i = first_touch_[position]; i < first_touch_[position + std::size_t{1}]; ++i) {
        upcoming[touches_[i].piece] = {event, true};
      }
      for (std::uint32_t i = first_change_[position]; i < first_change_[position + std::size_t{1}]; ++i) {
        Change& change = changes_[i];
        if (change.fate != Fate::kDead) change.next = upcoming[change.piece].event;
        upcoming[change.piece] = change.fate == Fate::kBorn ? Next{} : Next{event, change.fate == Fate::kJoined};
      }
    }
  }
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) pieces_[i].first = upcoming[i].event;
}

}  // namespace ebb
