// Directory: which pages of the process a device has, and where. Owned by one mirror, under its lock.
//
// Open addressing with room for every page of every device, so no function allocates. A page that is not here is at
// home. An Entry pointer is valid until the next insert or erase.
#pragma once

#include <cstdint>

#include "drivers/linux/process/reservation.h"
#include "mirror/pages/page_array.h"

namespace ebb {

inline constexpr std::size_t kHugePages = 512;  // of a huge page

inline void* address_of(std::uint64_t page) { return reinterpret_cast<void*>(page * kPageBytes); }

enum class Place : std::uint8_t {
  kDevice,     // in the slot; the CPU's page is absent
  kMapped,     // the slot's memory is under the CPU's address (coherent devices)
  kDuplicate,  // a copy in the slot; the CPU's page is there, and its next write ends the copy
  kCopying,    // about to become one
};

struct Entry {
  std::uint64_t page = 0;  // address / kPageBytes; 0: an empty place of the table
  std::uint32_t slot = 0;
  std::uint8_t device = 0;
  Place place = Place::kDevice;
  bool exclusive = false;
  bool huge = false;  // went to the device as part of a whole huge page
};

class Directory {
 public:
  static Status make(std::size_t pages_max, Directory& directory);

  Entry* find(std::uint64_t page);
  void insert(const Entry& entry);  // of a page that is not here
  void erase(std::uint64_t page);   // of a page that is
  std::size_t size() const { return size_; }
  bool overlaps(std::uintptr_t begin, std::uintptr_t end) const { return table_.overlaps(begin, end); }

 private:
  static constexpr std::size_t kNeighbours = 64;  // of a run of pages: side by side, as they are asked for

  std::size_t start_of(std::uint64_t page) const {
    return ((page / kNeighbours * 0x9E3779B97F4A7C15ull) >> shift_) * kNeighbours + page % kNeighbours;
  }
  std::size_t next(std::size_t place) const { return place + 1 == table_.size() ? 0 : place + 1; }

  PageArray<Entry> table_;
  unsigned shift_ = 0;
  std::size_t size_ = 0;
};

}  // namespace ebb
