// See device_memory.h.
#include "mirror/pages/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace ebb {

Status DeviceMemory::make(DeviceKind kind, std::uint64_t bytes, bool user_mode_only, DeviceMemory& memory) {
  memory.kind_ = kind;
  const std::size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (const Status status = Reservation::make(rounded, PROT_READ | PROT_WRITE, memory.base_); status != Status::kOk) {
    return status;
  }
  if (Userfault::open({.user_mode_only = user_mode_only}, memory.userfault_) != 0 || !memory.userfault_.can_move() ||
      memory.userfault_.watch(memory.base_.data(), rounded) != 0) {
    return Status::kUnsupported;
  }
  return PageArray<std::uint64_t>::make(rounded / kPageBytes, memory.page_of_);
}

bool DeviceMemory::overlaps(std::uintptr_t begin, std::uintptr_t end) const {
  const auto own = reinterpret_cast<std::uintptr_t>(base_.data());
  return (begin < own + base_.bytes() && own < end) || page_of_.overlaps(begin, end);
}

// The longest of the first runs of free slots in [from, to), up to `wanted`.
std::uint32_t DeviceMemory::find_run(std::uint32_t from, std::uint32_t to, std::uint32_t wanted,
                                     std::uint32_t& first) const {
  std::uint32_t best = 0;
  for (std::uint32_t slot = from; slot < to && best < wanted;) {
    std::uint32_t length = 0;
    while (slot + length < to && length < wanted && page_of_[slot + length] == 0) ++length;
    if (length > best) {
      best = length;
      first = slot;
    }
    slot += length + 1;
  }
  return best;
}

std::uint32_t DeviceMemory::allocate(std::uint64_t page, std::uint32_t wanted, std::uint32_t& first) {
  if (shortage_ == Mirror::Shortage::kAll || used_ == slots()) return 0;
  std::uint32_t got = 0;
  if (wanted == kHugePages && page % kHugePages == 0 && shortage_ == Mirror::Shortage::kNone) {
    for (std::uint32_t slot = 0; slot + kHugePages <= slots() && got != wanted; slot += kHugePages) {
      if (page_of_[slot] == 0 && find_run(slot, slot + kHugePages, wanted, first) == wanted) got = wanted;
    }
  }
  if (got == 0) {
    if (shortage_ == Mirror::Shortage::kHuge) wanted = std::min<std::uint32_t>(wanted, 16);
    got = find_run(cursor_, slots(), wanted, first);
    if (got == 0) got = find_run(0, cursor_, wanted, first);
    cursor_ = first + got;
  }
  for (std::uint32_t i = 0; i < got; ++i) page_of_[first + i] = kPromised;
  used_ += got;
  return got;
}

void DeviceMemory::discard(std::uint32_t first, std::uint32_t count) {
  ::madvise(address(first), std::size_t{count} * kPageBytes, MADV_DONTNEED);
}

void DeviceMemory::release(std::uint32_t first, std::uint32_t count) {
  discard(first, count);
  for (std::uint32_t slot = first; slot < first + count; ++slot) {
    EBB_CHECK_NE(page_of_[slot], 0u);
    page_of_[slot] = 0;
  }
  used_ -= count;
}

Userfault::Moved DeviceMemory::take(const ProcessMap& map, Gate& gate, std::uint32_t first, const void* from,
                                    std::uint32_t count) {
  const auto moved = gate.pull(map, from, std::size_t{count} * kPageBytes);
  if (count == kHugePages && first % kHugePages == 0 && gate.holds_huge(map)) renew(first, count);
  receive(map, gate, first, moved.bytes);
  zero_absent(map, first, moved.bytes);
  return moved;
}

// Slots that may have had small pages.
void DeviceMemory::renew(std::uint32_t first, std::uint32_t count) {
  const std::size_t bytes = std::size_t{count} * kPageBytes;
  if (base_.renew(address(first), bytes, PROT_READ | PROT_WRITE) != Status::kOk) return;
  EBB_CHECK_EQ(userfault_.watch(address(first), bytes), 0);
}

// What the gate holds must leave it: what the kernel does not move is copied.
void DeviceMemory::receive(const ProcessMap& map, Gate& gate, std::uint32_t first, std::size_t bytes) {
  std::byte* const to = address(first);
  bool copied = false;
  for (std::size_t done = 0; done < bytes;) {
    const auto more = userfault_.move(to + done, gate.data() + done, bytes - done);
    done += more.bytes;
    if (more.bytes > 0) continue;
    std::size_t run = 0;
    const bool here = holds(map, first + static_cast<std::uint32_t>(done / kPageBytes));
    if (!here && map.present_run(reinterpret_cast<std::uintptr_t>(gate.data()) + done, kPageBytes, run)) {
      EBB_CHECK_EQ(userfault_.copy(to + done, gate.data() + done, kPageBytes).error, 0);
      copied = true;
    }
    done += kPageBytes;
  }
  if (copied) gate.clear();
}

void DeviceMemory::zero_absent(const ProcessMap& map, std::uint32_t first, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address(first));
  for (std::size_t at = 0, run = 0; at < bytes; at += run) {
    if (map.present_run(begin + at, bytes - at, run)) continue;
    Userfault::Moved zeroed;
    while (zeroed.bytes < run) {
      const auto more = userfault_.zero(reinterpret_cast<void*>(begin + at + zeroed.bytes), run - zeroed.bytes);
      EBB_CHECK(more.error == 0 || more.error == EAGAIN);
      zeroed.bytes += more.bytes;
    }
  }
}

bool DeviceMemory::holds(const ProcessMap& map, std::uint32_t slot) const {
  std::size_t run = 0;
  return map.present_run(reinterpret_cast<std::uintptr_t>(address(slot)), kPageBytes, run);
}

int DeviceMemory::refill(std::uint32_t first, const std::byte* from, std::uint32_t count) {
  discard(first, count);
  const std::size_t bytes = std::size_t{count} * kPageBytes;
  std::size_t done = 0;
  while (done < bytes) {
    const auto copied = userfault_.copy(address(first) + done, from + done, bytes - done);
    done += copied.bytes;
    if (copied.bytes == 0 && copied.error != EAGAIN) return copied.error;
  }
  return 0;
}

}  // namespace ebb
