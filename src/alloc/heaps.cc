// See heaps.h.
#include "alloc/heaps.h"

#include "base/check.h"

namespace ebb {
namespace {

// A quarter is for small ranges, the rest in equal parts for the others.
std::array<std::uint64_t, 4> bounds_of(std::uint64_t blocks, std::uint64_t block_bytes) {
  const std::uint64_t small = blocks / 4, odd = (blocks - small) / 2;
  return {0, small * block_bytes, (small + odd) * block_bytes, blocks * block_bytes};
}

}  // namespace

Heaps::Heaps(std::uint32_t blocks, std::uint64_t block_bytes)
    : block_bytes_(block_bytes),
      bounds_(bounds_of(blocks, block_bytes)),
      heaps_{Heap(bounds_[0], bounds_[1]), Heap(bounds_[1], bounds_[2]), Heap(bounds_[2], bounds_[3])} {}

Heaps::Kind Heaps::kind_of(std::uint64_t bytes) const {
  if (bytes < block_bytes_ / 2) return kSmall;
  return Heap::round_up(bytes) % block_bytes_ == 0 ? kWhole : kOdd;
}

Heap& Heaps::heap_of(std::uint64_t offset) {
  return heaps_[offset < bounds_[kOdd] ? kSmall : offset < bounds_[kWhole] ? kOdd : kWhole];
}

const Heap& Heaps::heap_of(std::uint64_t offset) const { return const_cast<Heaps*>(this)->heap_of(offset); }

std::optional<Heap::Range> Heaps::allocate(std::uint64_t bytes, std::uint64_t serial) {
  return heaps_[kind_of(bytes)].allocate(bytes, serial);
}

void Heaps::step() {
  for (Heap& heap : heaps_) heap.step();
}

std::uint64_t Heaps::live_bytes() const {
  std::uint64_t bytes = 0;
  for (const Heap& heap : heaps_) bytes += heap.live_bytes();
  return bytes;
}

std::uint64_t Heaps::parked_bytes() const {
  std::uint64_t bytes = 0;
  for (const Heap& heap : heaps_) bytes += heap.parked_bytes();
  return bytes;
}

std::uint64_t Heaps::used_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < heaps_.size(); ++i) bytes += heaps_[i].frontier() - bounds_[i];
  return bytes;
}

void Heaps::validate() const {
  for (const Heap& heap : heaps_) heap.validate();
  EBB_CHECK_EQ(heaps_[kWhole].live_bytes() % block_bytes_, 0u);
}

}  // namespace ebb
