// See file_extents.h.
#include "alloc/file_extents.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {

FileExtents::File& FileExtents::file_of(std::int32_t file) {
  const auto found = std::find_if(files_.begin(), files_.end(), [&](const File& each) { return each.file == file; });
  EBB_CHECK(found != files_.end());
  return *found;
}

// One more who uses it.
void FileExtents::enter(std::int32_t file) {
  if (!uses(file)) {
    files_.push_back({file, 0});
    ++unused_;
  }
  unused_ -= file_of(file).users++ == 0 ? 1 : 0;
}

void FileExtents::let_go(std::int32_t file) { unused_ += --file_of(file).users == 0 ? 1 : 0; }

ExtentIndex FileExtents::add(const FilePlace& place) {
  enter(place.file);
  if (free_.empty()) {
    extents_.emplace_back();
    free_.reserve(extents_.capacity());
    free_.push_back(static_cast<std::uint32_t>(extents_.size() - 1));
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  extents_[index] = {{}, place, 1, false};
  return ExtentIndex(kFirst + index);
}

void FileExtents::release(ExtentIndex index) {
  Extent& extent = at(index);
  EBB_CHECK_LT(0u, extent.references);
  if (--extent.references > 0) return;
  let_go(extent.place.file);
  free_.push_back(index.value() - kFirst);
}

void FileExtents::set_digest(ExtentIndex index, const Digest& digest) {
  at(index).digest = digest;
  at(index).known = true;
}

bool FileExtents::uses(std::int32_t file) const {
  return std::any_of(files_.begin(), files_.end(), [&](const File& each) { return each.file == file; });
}

std::int32_t FileExtents::take_unused() {
  if (unused_ == 0) return FilePlace::kNoFile;
  const auto found = std::find_if(files_.begin(), files_.end(), [](const File& each) { return each.users == 0; });
  EBB_CHECK(found != files_.end());
  const std::int32_t file = found->file;
  *found = files_.back();
  files_.pop_back();
  --unused_;
  return file;
}

}  // namespace ebb
