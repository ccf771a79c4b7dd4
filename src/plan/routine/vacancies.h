// Vacancies: when places are likely to be taken again. What a program makes and frees all the time shares its first and
// last block with others, and lies where the one before it lay (docs/design/0026): such a block is needed when the next
// one comes, however late those need it that are alive.
//
// Owned by a Routine, under the runtime's lock. cover() allocates, all else does not. Time is in ticks, and grows.
#pragma once

#include <cstdint>
#include <vector>

#include "space/page_table.h"

namespace ebb {

class Vacancies {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  void cover(std::uint32_t blocks) { places_.resize(blocks); }
  // A tensor lies here from now on; it has been freed.
  void taken(BlockRange blocks, std::uint64_t now) {
    for_ends(blocks, [&](Place& place) {
      if (place.left_at != kNever) place.pause = now - place.left_at;
      place.taken_at = kNever;
    });
  }
  void left(BlockRange blocks, std::uint64_t now) {
    for_ends(blocks, [&](Place& place) {
      place.left_at = now;
      if (place.pause != kNever) place.taken_at = now + place.pause;
    });
  }
  // After as long a pause as last time; may be over, if it did not come.
  std::uint64_t taken_at(BlockIndex block) const {
    return block.value() < places_.size() ? places_[block.value()].taken_at : kNever;
  }

 private:
  struct Place {
    std::uint64_t left_at = kNever;
    std::uint64_t pause = kNever;
    std::uint64_t taken_at = kNever;
  };

  template <typename F>
  void for_ends(BlockRange blocks, F&& update) {
    if (blocks.count == 0) return;
    update(places_[blocks.first.value()]);
    if (blocks.count > 1) update(places_[blocks.end().value() - 1]);
  }

  std::vector<Place> places_;  // by block
};

}  // namespace ebb
