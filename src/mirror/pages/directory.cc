// See directory.h. Linear probing; erasing closes the gap by moving back what would no longer be found.
#include "mirror/pages/directory.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ebb {

Status Directory::make(std::size_t pages_max, Directory& directory) {
  const std::size_t size = std::bit_ceil(std::max(pages_max, kNeighbours) * 2);
  directory.shift_ = 64 - static_cast<unsigned>(std::countr_zero(size / kNeighbours));
  return PageArray<Entry>::make(size, directory.table_);
}

Entry* Directory::find(std::uint64_t page) {
  for (std::size_t place = start_of(page); table_[place].page != 0; place = next(place)) {
    if (table_[place].page == page) return &table_[place];
  }
  return nullptr;
}

void Directory::insert(const Entry& entry) {
  EBB_CHECK_NE(entry.page, 0u);
  EBB_CHECK_LT(size_, table_.size() / 2 + 1);
  std::size_t place = start_of(entry.page);
  for (; table_[place].page != 0; place = next(place)) EBB_CHECK_NE(table_[place].page, entry.page);
  table_[place] = entry;
  ++size_;
}

void Directory::erase(std::uint64_t page) {
  Entry* const found = find(page);
  EBB_CHECK(found != nullptr);
  auto gap = static_cast<std::size_t>(found - table_.data());
  for (std::size_t place = next(gap); table_[place].page != 0; place = next(place)) {
    const std::size_t start = start_of(table_[place].page);
    // Whether `start` lies cyclically in (gap, place]: then it is found without passing the gap.
    const bool stays = gap <= place ? gap < start && start <= place : gap < start || start <= place;
    if (stays) continue;
    table_[gap] = table_[place];
    gap = place;
  }
  table_[gap] = Entry{};
  --size_;
}

}  // namespace ebb
