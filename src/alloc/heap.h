// Heap: who gets which addresses: byte ranges inside one part of the space. Addresses are plentiful, memory is not, so
// it packs tightly: neighbours share a block, and what is allocated together lies together, as it mostly dies together.
//
// A range gets the place that it had in the iteration before (earlier_places.h), if that is free, else the free run
// that fits best, the first of several, else what follows on all that is in use. What is freed is merged with its free
// neighbours at once, so that places depend on what is live, and not on the order in which the rest was freed.
//
// A live range may be parked: nobody uses it, but it is kept for who may want it back, who gets it under a new serial.
//
// Owned by the core, under the runtime's lock. Offsets are bytes from the start of the space.
// Invariant: live ranges, free runs and the fresh part behind frontier() are disjoint and cover [begin, end); no two
// runs touch, nor does the last one touch the fresh part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "alloc/earlier_places.h"

namespace ebb {

class Heap {
 public:
  Heap(std::uint64_t begin, std::uint64_t end);

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;   // rounded up
    std::uint64_t serial = 0;  // the caller's name for it
    bool reused = false;       // these addresses have been somebody else's
    bool parked = false;
    std::uint32_t turns = 0;  // how often it has been parked and taken back
  };
  // None when no run is large enough.
  std::optional<Range> allocate(std::uint64_t bytes, std::uint64_t serial);
  // `offset` must be the start of a live range, which is returned.
  Range free(std::uint64_t offset);
  // `offset` must be the start of a live range that is not parked, or is. Returns it as it was, or as it is now.
  Range park(std::uint64_t offset);
  Range unpark(std::uint64_t offset, std::uint64_t serial);
  // An iteration of the program is over.
  void step() { earlier_.step(); }
  bool holds(std::uint64_t offset) const { return offset >= begin_ && offset < end_; }
  // The live range that starts here, or null.
  const Range* find(std::uint64_t offset) const;

  std::uint64_t frontier() const { return frontier_; }
  std::uint64_t used_bytes() const { return frontier_ - begin_; }
  std::uint64_t live_bytes() const { return live_bytes_; }  // parked ones too
  std::uint64_t parked_bytes() const { return parked_bytes_; }

  void validate() const;

  static std::uint64_t round_up(std::uint64_t bytes);

 private:
  std::uint64_t place_for(std::uint64_t bytes);
  bool take(std::uint64_t offset, std::uint64_t bytes);
  void add_run(std::uint64_t offset, std::uint64_t bytes);
  void remove_run(std::map<std::uint64_t, std::uint64_t>::iterator run);

  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t frontier_;
  std::uint64_t used_to_;  // the furthest that the frontier has been
  std::uint64_t live_bytes_ = 0;
  std::uint64_t parked_bytes_ = 0;
  std::unordered_map<std::uint64_t, Range> live_;                   // by offset; only looked up
  std::map<std::uint64_t, std::uint64_t> runs_;                     // offset to bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> runs_by_size_;  // (bytes, offset)
  EarlierPlaces earlier_;
};

}  // namespace ebb
