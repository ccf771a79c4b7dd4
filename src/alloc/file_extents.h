// FileExtents: copies of blocks that lie in files which the program has mapped. They are read and never written; what
// their bytes hash to is known from the first time that they were read.
//
// Owned by the ExtentPool, under the runtime's lock. add() and keep() allocate; the rest never does. A file is in use
// while any extent of it is, and while somebody keeps it: take_unused() names those that are not any more, each once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/digest.h"
#include "base/index.h"
#include "port/file_place.h"

namespace ebb {

class FileExtents {
 public:
  static constexpr std::uint32_t kFirst = 1u << 31;  // below are the places of our own
  static constexpr bool holds(ExtentIndex extent) { return extent.value() >= kFirst; }

  // With one reference.
  ExtentIndex add(const FilePlace& place);
  void retain(ExtentIndex extent) { ++at(extent).references; }
  void release(ExtentIndex extent);

  const FilePlace& place_of(ExtentIndex extent) const { return at(extent).place; }
  bool has_digest(ExtentIndex extent) const { return at(extent).known; }
  const Digest& digest_of(ExtentIndex extent) const { return at(extent).digest; }
  void set_digest(ExtentIndex extent, const Digest& digest);

  std::uint32_t size() const { return static_cast<std::uint32_t>(extents_.size()); }  // of the table
  std::uint32_t used() const { return static_cast<std::uint32_t>(extents_.size() - free_.size()); }
  bool uses(std::int32_t file) const;
  // As often let go as kept.
  void keep(std::int32_t file) { enter(file); }
  void let_go(std::int32_t file);
  // A file of which nothing is in use any more; FilePlace::kNoFile if there is none.
  std::int32_t take_unused();

 private:
  struct Extent {
    Digest digest;
    FilePlace place;
    std::uint32_t references = 0;
    bool known = false;
  };
  struct File {
    std::int32_t file = FilePlace::kNoFile;
    std::uint32_t users = 0;  // extents, and who keeps it
  };

  Extent& at(ExtentIndex extent) { return extents_[extent.value() - kFirst]; }
  const Extent& at(ExtentIndex extent) const { return extents_[extent.value() - kFirst]; }
  File& file_of(std::int32_t file);
  void enter(std::int32_t file);

  std::vector<Extent> extents_;
  std::vector<std::uint32_t> free_;  // room for all
  std::vector<File> files_;
  std::uint32_t unused_ = 0;  // of files_
};

}  // namespace ebb
