// See watched_ranges.h.
#include "mirror/pages/watched_ranges.h"

#include <algorithm>
#include <array>

namespace ebb {

// Index of the first range with end > address.
std::size_t WatchedRanges::first_ending_after(std::uintptr_t address) const {
  const Range* const begin = table_.data();
  return static_cast<std::size_t>(
      std::partition_point(begin, begin + size_, [&](const Range& range) { return range.end <= address; }) - begin);
}

void WatchedRanges::replace(std::size_t first, std::size_t count, const Range* with, std::size_t with_count) {
  Range* const base = table_.data();
  std::move_backward(base + first + count, base + size_, base + size_ + 2);  // out of the way
  std::copy(with, with + with_count, base + first);
  std::move(base + first + count + 2, base + size_ + 2, base + first + with_count);
  size_ = size_ - count + with_count;
}

bool WatchedRanges::add(std::uintptr_t begin, std::uintptr_t end) {
  std::size_t first = begin == 0 ? 0 : first_ending_after(begin - 1);  // one that ends at `begin` is joined
  std::size_t past = first;
  Range joined{begin, end};
  for (; past < size_ && table_[past].begin <= end; ++past) {
    joined.begin = std::min(joined.begin, table_[past].begin);
    joined.end = std::max(joined.end, table_[past].end);
  }
  if (past == first && size_ == kMax) return false;
  replace(first, past - first, &joined, 1);
  return true;
}

void WatchedRanges::remove(std::uintptr_t begin, std::uintptr_t end) {
  const std::size_t first = first_ending_after(begin);
  std::size_t past = first;
  std::array<Range, 2> left;
  std::size_t count = 0;
  for (; past < size_ && table_[past].begin < end; ++past) {
    if (table_[past].begin < begin) left[count++] = {table_[past].begin, begin};
    if (table_[past].end > end) left[count++] = {end, table_[past].end};
  }
  // A split where there is no room for it: the upper part is forgotten. Its faults are served all the same.
  if (size_ - (past - first) + count > kMax) --count;
  replace(first, past - first, left.data(), count);
}

bool WatchedRanges::covers(std::uintptr_t begin, std::uintptr_t end) const {
  const std::size_t found = first_ending_after(begin);
  return found < size_ && table_[found].begin <= begin && end <= table_[found].end;
}

bool WatchedRanges::overlap(std::uintptr_t begin, std::uintptr_t end) const {
  const std::size_t found = first_ending_after(begin);
  return found < size_ && table_[found].begin < end;
}

}  // namespace ebb
