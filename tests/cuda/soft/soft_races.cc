// See soft_races.h.
#include "soft_races.h"

#include <algorithm>

namespace ebb::soft {

int Shadow::touch(std::size_t offset, std::size_t bytes, bool write, std::uint32_t stream, std::uint32_t now,
                  const Clock& before) {
  if (cells_.empty()) cells_.resize((bytes_ + kGranule - 1) / kGranule);
  int raced = -1;
  const std::size_t end = std::min(cells_.size(), (offset + bytes + kGranule - 1) / kGranule);
  for (std::size_t i = offset / kGranule; i < end; ++i) {
    Cell& cell = cells_[i];
    if (cell.written > 0 && cell.writer != stream && cell.written > before.until[cell.writer]) {
      raced = static_cast<int>(cell.writer);
    }
    for (std::uint32_t other = 0; write && other < kStreamsMax; ++other) {
      if (other != stream && cell.reads[other] > before.until[other]) raced = static_cast<int>(other);
    }
    if (write) {
      cell = {};
      cell.writer = stream;
      cell.written = now;
    } else {
      cell.reads[stream] = now;
    }
  }
  last_.until[stream] = now;
  return raced;
}

bool Shadow::over(const Clock& known) const {
  for (std::uint32_t i = 0; i < kStreamsMax; ++i) {
    if (last_.until[i] > known.until[i]) return false;
  }
  return true;
}

}  // namespace ebb::soft
