// See extent_pool.h.
#include "alloc/extent_pool.h"

#include "base/check.h"

namespace ebb {

ExtentPool::ExtentPool(std::uint32_t limit) : limit_(limit) {
  extents_.reserve(limit);
  free_.reserve(limit);
}

void ExtentPool::set_capacity(std::uint32_t capacity) {
  EBB_CHECK_LE(capacity, limit_);
  const std::uint32_t before = this->capacity();
  if (capacity <= before) return;
  extents_.resize(capacity);
  // Lowest first, so that a store that is little used stays small.
  for (std::uint32_t i = capacity; i > before; --i) free_.push_back(ExtentIndex(i - 1));
}

ExtentIndex ExtentPool::take() {
  if (free_.empty()) return ExtentIndex::none();
  const ExtentIndex extent = free_.back();
  free_.pop_back();
  extents_[extent.value()].references = 1;
  ++used_;
  return extent;
}

void ExtentPool::retain(ExtentIndex extent) {
  EBB_CHECK_LT(0u, extents_[extent.value()].references);
  ++extents_[extent.value()].references;
}

void ExtentPool::release(ExtentIndex index) {
  Extent& extent = extents_[index.value()];
  EBB_CHECK_LT(0u, extent.references);
  if (--extent.references > 0) return;
  --used_;
  if (extent.retired) {
    ++retired_free_;
  } else {
    free_.push_back(index);
  }
}

void ExtentPool::retire(ExtentIndex index) {
  Extent& extent = extents_[index.value()];
  EBB_CHECK_LT(0u, extent.references);
  extent.retired = true;
}

void ExtentPool::validate() const {
  std::uint32_t used = 0;
  for (const Extent& extent : extents_) used += extent.references > 0 ? 1 : 0;
  EBB_CHECK_EQ(used, used_);
  EBB_CHECK_EQ(used_ + free_.size() + retired_free_, extents_.size());
}

}  // namespace ebb
