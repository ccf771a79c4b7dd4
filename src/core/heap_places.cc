// See heap_places.h.
#include "core/heap_places.h"

namespace ebb {

HeapPlaces::HeapPlaces(const CoreConfig& config, std::uint64_t managed_bytes_min)
    : block_bytes_(config.block_bytes),
      managed_bytes_min_(managed_bytes_min),
      heaps_(config.blocks, config.block_bytes, config.blocks_beyond) {}

GuidePlaces::Place HeapPlaces::allocate(std::uint64_t bytes, std::uint64_t serial) {
  if (bytes < managed_bytes_min_ || bytes == 0) return {};
  const auto range = heaps_.allocate(bytes, serial);
  if (!range) return {};
  const std::uint64_t first = range->offset / block_bytes_;
  const std::uint64_t last = (range->offset + range->bytes - 1) / block_bytes_;
  return {range->offset,
          range->bytes,
          {BlockIndex(static_cast<std::uint32_t>(first)), static_cast<std::uint32_t>(last - first + 1)}};
}

void HeapPlaces::free(std::uint64_t offset) { static_cast<void>(heaps_.free(offset)); }

void HeapPlaces::step() { heaps_.step(); }

}  // namespace ebb
