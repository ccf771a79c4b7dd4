// Pieces: a recorded iteration seen from the space instead of from its tensors. The space is cut where any tensor of
// the iteration begins or ends, and where one that is used in parts is cut; a piece is a run of blocks that always
// belong to the same tensors and are used together, so it comes and goes as one. A block that neighbours share is a
// piece of its own, and lives and is used as long as either does.
//
// Addresses are taken to be the same in every iteration, as the heap mostly sees to it.
//
// Made from a finished recording and only read afterwards. Events are numbered as in the recording; from size() on they
// are those of the next iteration.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/recording.h"

namespace ebb {

class Pieces {
 public:
  static constexpr std::uint64_t kNever = ~0ull;

  // A launch uses a piece; or it is allocated after a launch, whose result it is then: who announces a launch does not
  // know yet where that will lie. What the next launch uses has that use, and no other.
  struct Touch {
    std::uint32_t piece = 0;
    std::uint32_t use = 0;        // number in the recording: of the tensor through which it is used, or allocated
    std::uint64_t next = kNever;  // the next event for which it is there: a use, or its death
    bool needed = false;          // that event is a use: what is in it then is what is in it now
    bool written = false;         // as far as is known
  };
  struct Piece {
    BlockRange blocks;
    std::uint64_t first = kNever;  // what next would say before the iteration begins
    bool carried = false;          // alive before the iteration
  };

  explicit Pieces(const Recording& recording);

  std::uint32_t size() const { return static_cast<std::uint32_t>(pieces_.size()); }
  const Piece& operator[](std::uint32_t piece) const { return pieces_[piece]; }
  std::uint32_t touches_total() const { return static_cast<std::uint32_t>(touches_.size()); }
  const Touch& touch(std::uint32_t index) const { return touches_[index]; }
  // Where the piece of a touch begins in the tensor through which the event uses it, in blocks.
  std::uint32_t offset(Recording::Position event, const Touch& touch) const;
  // The touches of an event are [first, end); and what else happens to pieces with it: they come to life, a further
  // tensor is born in them, whose content is about to be made, or they die.
  std::uint32_t first_touch(Recording::Position event) const { return first_touch_[event]; }
  std::uint32_t end_touch(Recording::Position event) const { return first_touch_[event + std::size_t{1}]; }
  enum class Fate : unsigned char { kBorn, kJoined, kDead };
  struct Change {
    std::uint32_t piece = 0;
    Fate fate = Fate::kBorn;
    std::uint64_t next = kNever;  // as for a touch, if it is not dead
  };
  std::span<const Change> changes(Recording::Position event) const {
    return std::span(changes_).subspan(first_change_[event],
                                       first_change_[event + std::size_t{1}] - first_change_[event]);
  }

 private:
  void cut();
  void live();
  void note_changes(const Recording::Event& event, bool result, std::vector<std::uint32_t>& alive);
  void link();
  template <typename F>
  void for_pieces(BlockRange blocks, F&& visit) const;

  const Recording& recording_;
  std::vector<std::uint32_t> bounds_;  // sorted blocks where pieces begin or end
  std::vector<Piece> pieces_;
  std::vector<Touch> touches_;
  std::vector<std::uint32_t> first_touch_;
  std::vector<Change> changes_;
  std::vector<std::uint32_t> first_change_;
};

}  // namespace ebb
