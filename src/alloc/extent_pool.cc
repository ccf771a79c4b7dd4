// See extent_pool.h.
#include "alloc/extent_pool.h"

#include "base/check.h"

namespace ebb {

ExtentPool::ExtentPool(std::uint32_t flash, std::uint32_t host) : host_(host), limit_(flash) {
  extents_.reserve(std::size_t{host} + flash);
  extents_.resize(host);
  free_flash_.reserve(flash);
  free_host_.reserve(host);
  for (std::uint32_t i = host; i > 0; --i) free_host_.push_back(ExtentIndex(i - 1));
}

void ExtentPool::set_capacity(std::uint32_t capacity) {
  EBB_CHECK_LE(capacity, limit_);
  const std::uint32_t before = this->capacity();
  if (capacity <= before) return;
  extents_.resize(std::size_t{host_} + capacity);
  // Lowest first, so that a store that is little used stays small.
  for (std::uint32_t i = capacity; i > before; --i) free_flash_.push_back(ExtentIndex(host_ + i - 1));
}

ExtentIndex ExtentPool::take(Tier tier) {
  std::vector<ExtentIndex>& free = free_list(tier);
  if (free.empty()) return ExtentIndex::none();
  const ExtentIndex extent = free.back();
  free.pop_back();
  extents_[extent.value()].references = 1;
  ++used_;
  return extent;
}

void ExtentPool::retain(ExtentIndex extent) {
  if (in_file(extent)) return files_.retain(extent);
  EBB_CHECK_LT(0u, extents_[extent.value()].references);
  ++extents_[extent.value()].references;
}

void ExtentPool::release(ExtentIndex index) {
  if (in_file(index)) return files_.release(index);
  Extent& extent = extents_[index.value()];
  EBB_CHECK_LT(0u, extent.references);
  if (--extent.references > 0) return;
  --used_;
  if (extent.retired) {
    ++retired_free_;
  } else {
    free_list(tier_of(index)).push_back(index);
  }
}

void ExtentPool::retire(ExtentIndex index) {
  if (in_file(index)) return;  // it is not ours to hand out
  Extent& extent = extents_[index.value()];
  EBB_CHECK_LT(0u, extent.references);
  extent.retired = true;
}

void ExtentPool::validate() const {
  std::uint32_t used = 0;
  for (const Extent& extent : extents_) used += extent.references > 0 ? 1 : 0;
  EBB_CHECK_EQ(used, used_);
  EBB_CHECK_EQ(used_ + free() + retired_free_, extents_.size());
}

}  // namespace ebb
