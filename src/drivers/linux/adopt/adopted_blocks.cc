// See adopted_blocks.h.
#include "drivers/linux/adopt/adopted_blocks.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {

AdoptedBlocks::Span::Span(BlockRange blocks_range, std::uintptr_t address, std::size_t block_bytes)
    : range(blocks_range),
      blocks(blocks_range.count),
      gone(blocks_range.count * (block_bytes / kPageBytes)),
      empty(blocks_range.count * (block_bytes / kPageBytes)) {
  for (std::uint32_t i = 0; i < range.count; ++i) blocks[i].address = address + i * block_bytes;
}

AdoptedBlocks::Span* AdoptedBlocks::span_of(BlockIndex block) const {
  const auto after =
      std::upper_bound(spans_.begin(), spans_.end(), block.value(),
                       [](std::uint32_t value, const auto& s) { return value < s->range.first.value(); });
  if (after == spans_.begin()) return nullptr;
  Span* const span = std::prev(after)->get();
  return block.value() - span->range.first.value() < span->range.count ? span : nullptr;
}

AdoptedBlocks::Span& AdoptedBlocks::bits(BlockIndex block) const {
  Span* const span = span_of(block);
  EBB_CHECK(span != nullptr);
  return *span;
}

AdoptedBlock* AdoptedBlocks::find(BlockIndex block) {
  Span* const span = span_of(block);
  return span == nullptr ? nullptr : &span->blocks[block.value() - span->range.first.value()];
}

BlockIndex AdoptedBlocks::at(std::uintptr_t address) const {
  for (const auto& span : spans_) {
    const std::uintptr_t offset = address - span->blocks.front().address;
    const std::size_t guess = span->in_order ? offset / block_bytes_ : 0;
    const std::size_t end = span->in_order ? std::min(guess + 1, span->blocks.size()) : span->blocks.size();
    for (std::size_t i = guess; i < end; ++i) {
      const std::uintptr_t within = address - span->blocks[i].address;
      const BlockIndex block(span->range.first.value() + static_cast<std::uint32_t>(i));
      if (span->blocks[i].joined && within < block_bytes_ && !gone(block, within / kPageBytes)) return block;
    }
  }
  return BlockIndex::none();
}

void AdoptedBlocks::set_gone(BlockIndex block, std::size_t first, std::size_t end) {
  Span& span = bits(block);
  AdoptedBlock& record = *find(block);
  for (std::size_t page = first; page < end; ++page) {
    const std::size_t bit = page_of(block, page);
    if (span.gone[bit]) continue;
    span.gone[bit] = true;
    ++record.gone_pages;
  }
  if (record.gone_pages == block_bytes_ / kPageBytes) record.joined = false;
}

void AdoptedBlocks::set_empty(BlockIndex block, std::size_t first, std::size_t end, bool empty) {
  Span& span = bits(block);
  AdoptedBlock& record = *find(block);
  for (std::size_t page = first; page < end; ++page) {
    const std::size_t bit = page_of(block, page);
    if (span.empty[bit] == empty) continue;
    span.empty[bit] = empty;
    record.empty_pages += empty ? 1 : -1;
  }
}

void AdoptedBlocks::rebase(BlockIndex block, std::uintptr_t address) {
  bits(block).in_order = false;
  find(block)->address = address;
}

}  // namespace ebb
