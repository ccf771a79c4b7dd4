// DeviceMemory: the memory of one software device: page-sized slots in a mapping of its own, which is not inherited by
// fork. Owned by one mirror, under its lock; no function but make() allocates.
//
// A slot is free, or belongs to one page of the process. Pages come through the Gate into a slot by UFFDIO_MOVE on this
// mapping's own userfaultfd, which tells no events, so nothing here ever waits for the mirror's event thread.
// Invariant: the page of a free slot is absent; that of a slot whose entry is in Place::kDevice is present.
#pragma once

#include <cstdint>

#include "drivers/linux/process/process_map.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/userfault/gate.h"
#include "drivers/linux/userfault/userfault.h"
#include "ebb/mirror.h"
#include "mirror/pages/directory.h"

namespace ebb {

class DeviceMemory {
 public:
  static constexpr std::uint64_t kPromised = ~0ull;  // page of a slot that is about to be filled

  static Status make(DeviceKind kind, std::uint64_t bytes, bool user_mode_only, DeviceMemory& memory);

  DeviceKind kind() const { return kind_; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(page_of_.size()); }
  std::uint32_t used() const { return used_; }
  std::byte* address(std::uint32_t slot) const { return base_.data() + std::size_t{slot} * kPageBytes; }
  std::uint64_t page_of(std::uint32_t slot) const { return page_of_[slot]; }
  void set_page(std::uint32_t slot, std::uint64_t page) { page_of_[slot] = page; }
  void set_shortage(Mirror::Shortage shortage) { shortage_ = shortage; }
  bool overlaps(std::uintptr_t begin, std::uintptr_t end) const;
  // In a forked child, which has not inherited it.
  void forget() { base_.forget(); }

  // Adjacent slots for the pages from `page` on: as many of `wanted` as can be had, 0 if none. A whole huge page gets
  // slots that are aligned as it is.
  std::uint32_t allocate(std::uint64_t page, std::uint32_t wanted, std::uint32_t& first);
  // Drops what is in the slots.
  void release(std::uint32_t first, std::uint32_t count);

  // Takes pages of the process into promised slots; absent ones become zeros. Says how many, and the kernel's error for
  // the next.
  Userfault::Moved take(const ProcessMap& map, Gate& gate, std::uint32_t first, const void* from, std::uint32_t count);
  // Whether a page is in the slot: what the kernel answers to a move that failed does not tell.
  bool holds(const ProcessMap& map, std::uint32_t slot) const;
  // Drops what is in the slots and puts a copy of `from` there: new memory, of this device.
  int refill(std::uint32_t first, const std::byte* from, std::uint32_t count);
  void discard(std::uint32_t first, std::uint32_t count);
  int zero(std::uint32_t slot) { return userfault_.zero(address(slot), kPageBytes).error; }

 private:
  void renew(std::uint32_t first, std::uint32_t count);
  void receive(const ProcessMap& map, Gate& gate, std::uint32_t first, std::size_t bytes);
  void zero_absent(const ProcessMap& map, std::uint32_t first, std::size_t bytes);
  std::uint32_t find_run(std::uint32_t from, std::uint32_t to, std::uint32_t wanted, std::uint32_t& first) const;

  DeviceKind kind_ = DeviceKind::kPrivate;
  Mirror::Shortage shortage_ = Mirror::Shortage::kNone;
  Reservation base_;
  Userfault userfault_;
  PageArray<std::uint64_t> page_of_;  // 0: free
  std::uint32_t used_ = 0;
  std::uint32_t cursor_ = 0;  // where the search for free slots goes on
};

}  // namespace ebb
