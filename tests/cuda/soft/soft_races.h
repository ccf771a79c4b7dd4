// Races: happens-before between pieces of work, by vector clocks that advance as work is given to streams. Pure: no
// threads, and no clock but its own.
//
// Owned by the World, under its lock. A Shadow remembers, for each granule of some memory, who wrote it last and who
// has read it since.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::soft {

inline constexpr std::uint32_t kStreamsMax = 32;

// By stream: how much of its work is known to be over, or to come before.
struct Clock {
  std::array<std::uint32_t, kStreamsMax> until{};
  void add(const Clock& other) {
    for (std::uint32_t i = 0; i < kStreamsMax; ++i) until[i] = until[i] < other.until[i] ? other.until[i] : until[i];
  }
};

class Shadow {
 public:
  static constexpr std::size_t kGranule = 512;  // what allocations are aligned to

  explicit Shadow(std::size_t bytes) : bytes_(bytes) {}
  // Work of `stream`, which comes after all in `before` and has the number `now`, touches these bytes. Returns the
  // stream of work that is not ordered with it, or -1.
  int touch(std::size_t offset, std::size_t bytes, bool write, std::uint32_t stream, std::uint32_t now,
            const Clock& before);
  // The same for the host or for freeing: whether all work on it is known to be over.
  bool over(const Clock& known) const;

 private:
  struct Cell {
    std::uint32_t writer = 0;
    std::uint32_t written = 0;  // its number; 0: never
    std::array<std::uint32_t, kStreamsMax> reads{};
  };

  std::size_t bytes_;
  std::vector<Cell> cells_;  // made when first needed
  Clock last_;               // of all work
};

}  // namespace ebb::soft
