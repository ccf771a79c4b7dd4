// WatchedRanges: the parts of the process that the mirror's userfaultfd is registered on, sorted and disjoint, of a
// fixed number. Owned by one mirror, under its lock; no function but make() allocates.
#pragma once

#include <cstdint>

#include "mirror/pages/page_array.h"

namespace ebb {

class WatchedRanges {
 public:
  static constexpr std::size_t kMax = 8192;
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };

  static Status make(WatchedRanges& ranges) { return PageArray<Range>::make(kMax + 2, ranges.table_); }

  // False: there is no room for another.
  bool add(std::uintptr_t begin, std::uintptr_t end);
  void remove(std::uintptr_t begin, std::uintptr_t end);
  bool holds(std::uintptr_t address) const { return covers(address, address + 1); }
  bool covers(std::uintptr_t begin, std::uintptr_t end) const;
  bool overlap(std::uintptr_t begin, std::uintptr_t end) const;
  std::size_t size() const { return size_; }
  Range operator[](std::size_t index) const { return table_[index]; }

 private:
  std::size_t first_ending_after(std::uintptr_t address) const;
  void replace(std::size_t first, std::size_t count, const Range* with, std::size_t with_count);

  PageArray<Range> table_;
  std::size_t size_ = 0;
};

}  // namespace ebb
