// ExtentPool: who has which place below the device tier, and what its bytes must hash to. Extents [0, host) are in host
// memory, the rest on flash; those in files of the program's are numbered beyond (file_extents.h), and never taken: a
// block has them from the beginning.
//
// An extent is shared by its block and by snapshots (a forked child reads the blocks as they were); the last one to
// release it frees it. The flash store grows in steps, so that a full file system is met here, before anything is
// evicted; host memory is there from the start.
//
// Owned by the core, under the runtime's lock; never allocates after construction.
// Invariant: used() == number of extents with references; capacity() <= limit().
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/file_extents.h"
#include "base/digest.h"
#include "base/index.h"
#include "base/tier.h"

namespace ebb {

class ExtentPool {
 public:
  // At most `flash` extents on flash, none of which is usable before set_capacity(), and `host` in host memory.
  explicit ExtentPool(std::uint32_t flash, std::uint32_t host = 0);

  std::uint32_t host() const { return host_; }
  // A file is on the flash tier, too.
  Tier tier_of(ExtentIndex extent) const { return extent.value() < host_ ? Tier::kHost : Tier::kFlash; }
  // Of flash.
  std::uint32_t limit() const { return limit_; }
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(extents_.size()) - host_; }
  // Of both; not those in files.
  std::uint32_t used() const { return used_; }
  std::uint32_t free() const { return free(Tier::kHost) + free(Tier::kFlash); }
  std::uint32_t free(Tier tier) const { return static_cast<std::uint32_t>(free_list(tier).size()); }

  // Makes `capacity` extents of flash usable; they are added to those that exist.
  void set_capacity(std::uint32_t capacity);
  // A free extent of this tier, with one reference; none if there is none.
  ExtentIndex take(Tier tier = Tier::kFlash);
  void retain(ExtentIndex extent);
  void release(ExtentIndex extent);
  // Never hands this extent out again, once it is free: a write to it failed.
  void retire(ExtentIndex extent);
  // Not its block's alone: a snapshot's too, or a file's, and so to be left as it is.
  bool shared(ExtentIndex extent) const { return in_file(extent) || extents_[extent.value()].references > 1; }

  static bool in_file(ExtentIndex extent) { return FileExtents::holds(extent); }
  FileExtents& files() { return files_; }
  const FileExtents& files() const { return files_; }
  // None unless it is in a file.
  FilePlace place_of(ExtentIndex extent) const { return in_file(extent) ? files_.place_of(extent) : FilePlace{}; }

  // Of what is in a file, once it has been read.
  bool has_digest(ExtentIndex extent) const { return !in_file(extent) || files_.has_digest(extent); }
  const Digest& digest_of(ExtentIndex extent) const {
    return in_file(extent) ? files_.digest_of(extent) : extents_[extent.value()].digest;
  }
  void set_digest(ExtentIndex extent, const Digest& digest) {
    if (in_file(extent)) return files_.set_digest(extent, digest);
    extents_[extent.value()].digest = digest;
  }

  void validate() const;

 private:
  struct Extent {
    Digest digest;
    std::uint32_t references = 0;
    bool retired = false;
  };

  const std::vector<ExtentIndex>& free_list(Tier tier) const { return tier == Tier::kHost ? free_host_ : free_flash_; }
  std::vector<ExtentIndex>& free_list(Tier tier) { return tier == Tier::kHost ? free_host_ : free_flash_; }

  std::vector<Extent> extents_;
  FileExtents files_;
  std::vector<ExtentIndex> free_host_;
  std::vector<ExtentIndex> free_flash_;
  std::uint32_t host_;
  std::uint32_t limit_;
  std::uint32_t used_ = 0;
  std::uint32_t retired_free_ = 0;
};

}  // namespace ebb
