// ExtentPool: who has which place on flash, and what its bytes must hash to.
//
// An extent is shared by its block and by snapshots (a forked child reads the blocks as they were); the last one to
// release it frees it. The store grows in steps, so that a full file system is met here, before anything is evicted.
//
// Owned by the core, under the runtime's lock; never allocates after construction.
// Invariant: used() == number of extents with references; capacity() <= limit().
#pragma once

#include <cstdint>
#include <vector>

#include "base/digest.h"
#include "base/index.h"

namespace ebb {

class ExtentPool {
 public:
  // At most `limit` extents, none of which is usable before set_capacity().
  explicit ExtentPool(std::uint32_t limit);

  std::uint32_t limit() const { return limit_; }
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(extents_.size()); }
  std::uint32_t used() const { return used_; }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }

  // Makes extents [0, capacity) usable; they are added to those that exist.
  void set_capacity(std::uint32_t capacity);
  // A free extent, with one reference; none if there is none.
  ExtentIndex take();
  void retain(ExtentIndex extent);
  void release(ExtentIndex extent);
  // Never hands this extent out again, once it is free: a write to it failed.
  void retire(ExtentIndex extent);
  bool shared(ExtentIndex extent) const { return extents_[extent.value()].references > 1; }

  const Digest& digest_of(ExtentIndex extent) const { return extents_[extent.value()].digest; }
  void set_digest(ExtentIndex extent, const Digest& digest) { extents_[extent.value()].digest = digest; }

  void validate() const;

 private:
  struct Extent {
    Digest digest;
    std::uint32_t references = 0;
    bool retired = false;
  };

  std::vector<Extent> extents_;
  std::vector<ExtentIndex> free_;
  std::uint32_t limit_;
  std::uint32_t used_ = 0;
  std::uint32_t retired_free_ = 0;
};

}  // namespace ebb
