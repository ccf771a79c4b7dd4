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

ExtentIndex FileExtents::add(const FilePlace& place) {
  const auto known = [&](const File& each) { return each.file == place.file; };
  if (std::none_of(files_.begin(), files_.end(), known)) {
    files_.push_back({place.file, 0});
    ++unused_;
  }
  File& file = file_of(place.file);
  unused_ -= file.extents++ == 0 ? 1 : 0;
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
  unused_ += --file_of(extent.place.file).extents == 0 ? 1 : 0;
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
  const auto found = std::find_if(files_.begin(), files_.end(), [](const File& each) { return each.extents == 0; });
  EBB_CHECK(found != files_.end());
  const std::int32_t file = found->file;
  *found = files_.back();
  files_.pop_back();
  --unused_;
  return file;
}

}  // namespace ebb
