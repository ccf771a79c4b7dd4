// HeapPlaces: where the allocations of a guide lie: heaps like those of a Core with this configuration, into which
// nothing but the guide allocates.
//
// Owned by whoever makes a guide. One thread.
#pragma once

#include <cstdint>

#include "alloc/heaps.h"
#include "core/state.h"
#include "plan/guide/make_guide.h"

namespace ebb {

class HeapPlaces final : public GuidePlaces {
 public:
  // Smaller allocations than `managed_bytes_min` are not managed.
  HeapPlaces(const CoreConfig& config, std::uint64_t managed_bytes_min);

  Place allocate(std::uint64_t bytes, std::uint64_t serial) override;
  void free(std::uint64_t offset) override;
  void step() override;

 private:
  std::uint64_t block_bytes_;
  std::uint64_t managed_bytes_min_;
  Heaps heaps_;
};

}  // namespace ebb
