// See heaps.h.
#include "alloc/heaps.h"

#include "base/check.h"

namespace ebb {
namespace {

// A quarter is for small ranges, the rest in equal parts for the others.
std::array<Heap, 4> cut(std::uint64_t blocks, std::uint64_t block_bytes, std::uint64_t beyond) {
  const std::uint64_t odd_from = blocks / 4 * block_bytes;
  const std::uint64_t whole_from = odd_from + (blocks - blocks / 4) / 2 * block_bytes;
  const std::uint64_t beyond_from = blocks * block_bytes;
  return {Heap(0, odd_from), Heap(odd_from, whole_from), Heap(whole_from, beyond_from),
          Heap(beyond_from, beyond_from + beyond * block_bytes)};
}

}  // namespace

Heaps::Heaps(std::uint32_t blocks, std::uint64_t block_bytes, std::uint32_t beyond)
    : block_bytes_(block_bytes), heaps_(cut(blocks - beyond, block_bytes, beyond)) {}

Heaps::Kind Heaps::kind_of(std::uint64_t bytes) const {
  if (bytes < block_bytes_ / 2) return kSmall;
  return Heap::round_up(bytes) % block_bytes_ == 0 ? kWhole : kOdd;
}

Heaps::Kind Heaps::kind_at(std::uint64_t offset) const {
  if (heaps_[kSmall].holds(offset)) return kSmall;
  if (heaps_[kOdd].holds(offset)) return kOdd;
  return heaps_[kBeyond].holds(offset) ? kBeyond : kWhole;
}

std::optional<Heap::Range> Heaps::allocate(std::uint64_t bytes, std::uint64_t serial) {
  const Kind kind = kind_of(bytes);
  const auto range = heaps_[kind].allocate(bytes, serial);
  return !range && kind == kWhole ? heaps_[kBeyond].allocate(bytes, serial) : range;
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
  for (const Heap& heap : heaps_) bytes += heap.used_bytes();
  return bytes;
}

void Heaps::validate() const {
  for (const Heap& heap : heaps_) heap.validate();
  for (const Kind whole : {kWhole, kBeyond}) EBB_CHECK_EQ(heaps_[whole].live_bytes() % block_bytes_, 0u);
}

}  // namespace ebb
