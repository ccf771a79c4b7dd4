// AdoptedBlocks: where the memory of adopted blocks is, and which of its pages are still there. Pure data: it makes no
// call. Spans come and go with add() and remove(), which allocate; nothing else does.
//
// Owned by AdoptedMemory, under its mutex. Invariant: no page that is there is of two joined blocks; a page that
// is gone stays so, and a block of which all are is not joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/index.h"
#include "drivers/linux/process/reservation.h"

namespace ebb {

inline std::byte* pointer(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

struct AdoptedBlock {
  std::uintptr_t address = 0;
  bool joined = false;               // watched
  bool present = false;              // its memory is at the address, not in a frame at home
  bool inherited = false;            // by a child that is being made, as it is
  bool failed = false;               // without access, because its content is lost
  std::uint32_t gone_pages = 0;      // unmapped by the owner
  std::uint32_t empty_pages = 0;     // discarded by the owner while absent: zeros when they come back
  std::uint64_t stays_until_ns = 0;  // the owner may be about to discard pages of it
};

class AdoptedBlocks {
 public:
  explicit AdoptedBlocks(std::size_t block_bytes) : block_bytes_(block_bytes) {}

  struct Span {
    Span(BlockRange range, std::uintptr_t address, std::size_t block_bytes);
    BlockRange range;
    bool in_order = true;  // the addresses follow one another
    std::vector<AdoptedBlock> blocks;
    std::vector<bool> gone;   // by page
    std::vector<bool> empty;  // by page
  };
  using Spans = std::vector<std::unique_ptr<Span>>;

  // The table with one span more or less: swap it in under the lock, and free the old one without.
  const Spans& spans() const { return spans_; }
  void swap(Spans& spans) { spans_.swap(spans); }
  std::size_t size() const { return spans_.size(); }

  AdoptedBlock* find(BlockIndex block);
  const AdoptedBlock* find(BlockIndex block) const { return const_cast<AdoptedBlocks*>(this)->find(block); }
  // The joined block that this address is in, or none.
  BlockIndex at(std::uintptr_t address) const;

  bool gone(BlockIndex block, std::size_t page) const { return bits(block).gone[page_of(block, page)]; }
  bool empty(BlockIndex block, std::size_t page) const { return bits(block).empty[page_of(block, page)]; }
  // Pages [first, end) of a block.
  void set_gone(BlockIndex block, std::size_t first, std::size_t end);
  void set_empty(BlockIndex block, std::size_t first, std::size_t end, bool empty);
  // The block lies elsewhere now.
  void rebase(BlockIndex block, std::uintptr_t address);

  // Calls `use(block, first_page, end_page)` for every joined block with pages in [begin, end).
  template <typename Use>
  void visit(std::uintptr_t begin, std::uintptr_t end, Use use) {
    for (const auto& span : spans_) {
      for (std::uint32_t i = 0; i < span->range.count; ++i) {
        const AdoptedBlock& block = span->blocks[i];
        if (!block.joined || block.address >= end || block.address + block_bytes_ <= begin) continue;
        const std::uintptr_t first = begin > block.address ? begin - block.address : 0;
        const std::uintptr_t last = end < block.address + block_bytes_ ? end - block.address : block_bytes_;
        use(BlockIndex(span->range.first.value() + i), first / kPageBytes, (last + kPageBytes - 1) / kPageBytes);
      }
    }
  }

 private:
  Span* span_of(BlockIndex block) const;
  Span& bits(BlockIndex block) const;
  std::size_t page_of(BlockIndex block, std::size_t page) const {
    return (block.value() - bits(block).range.first.value()) * (block_bytes_ / kPageBytes) + page;
  }

  std::size_t block_bytes_;
  Spans spans_;  // by first block
};

}  // namespace ebb
