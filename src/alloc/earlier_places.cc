// See earlier_places.h.
#include "alloc/earlier_places.h"

#include <iterator>

namespace ebb {

std::array<std::uint64_t, 2> EarlierPlaces::of(std::uint64_t bytes) const {
  const auto found = sizes_.find(bytes);
  if (found == sizes_.end()) return {kNone, kNone};
  const Size& size = found->second;
  const std::size_t next = size.now.size();
  const auto at = [next](const std::vector<std::uint64_t>& offsets) {
    return next < offsets.size() ? offsets[next] : kNone;
  };
  return {at(size.before), at(size.earlier)};
}

void EarlierPlaces::note(std::uint64_t bytes, std::uint64_t offset) {
  if (noted_ == kRangesMax) return;
  ++noted_;
  sizes_[bytes].now.push_back(offset);
}

void EarlierPlaces::step() {
  noted_ = 0;
  for (auto each = sizes_.begin(); each != sizes_.end();) {
    Size& size = each->second;
    ++size.idle;
    if (!size.now.empty()) {
      size.earlier.swap(size.before);
      size.before.swap(size.now);
      size.now.clear();
      size.idle = 0;
    }
    each = size.idle > kIdleMax ? sizes_.erase(each) : std::next(each);
  }
}

}  // namespace ebb
