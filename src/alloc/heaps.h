// Heaps: the space, cut into a heap for each kind of range: small ones, of less than half a block, odd ones, and whole
// numbers of blocks. The last kind lies on whole blocks, so that nobody else's use brings a part of it, or keeps one.
// In a heap with odd ranges that would cost the rest of a block before each of them; by themselves they pack as
// tightly as the others do. Beyond these heaps there may be another one, for whole blocks that no longer fit: files
// larger than what memory and flash hold. What is indexed by block is that long only once some lie there.
//
// Owned by the core, under the runtime's lock. Offsets are bytes from the start of the space.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "alloc/heap.h"

namespace ebb {

class Heaps {
 public:
  // `beyond`: so many of the blocks, at the end.
  Heaps(std::uint32_t blocks, std::uint64_t block_bytes, std::uint32_t beyond = 0);

  // As of a Heap (heap.h).
  std::optional<Heap::Range> allocate(std::uint64_t bytes, std::uint64_t serial);
  Heap::Range free(std::uint64_t offset) { return heap_of(offset).free(offset); }
  Heap::Range park(std::uint64_t offset) { return heap_of(offset).park(offset); }
  Heap::Range unpark(std::uint64_t offset, std::uint64_t serial) { return heap_of(offset).unpark(offset, serial); }
  const Heap::Range* find(std::uint64_t offset) const { return heap_of(offset).find(offset); }
  void step();

  std::uint64_t live_bytes() const;  // parked ones too
  std::uint64_t parked_bytes() const;
  // Of the space, up to the last range of each heap.
  std::uint64_t used_bytes() const;

  void validate() const;

 private:
  enum Kind : unsigned char { kSmall, kOdd, kWhole, kBeyond };
  Kind kind_of(std::uint64_t bytes) const;
  Kind kind_at(std::uint64_t offset) const;
  Heap& heap_of(std::uint64_t offset) { return heaps_[kind_at(offset)]; }
  const Heap& heap_of(std::uint64_t offset) const { return heaps_[kind_at(offset)]; }

  std::uint64_t block_bytes_;
  std::array<Heap, 4> heaps_;  // by kind
};

}  // namespace ebb
