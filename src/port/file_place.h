// FilePlace: where the copy of a block lies in a file that the program has mapped: `bytes` of it from `offset` on; the
// rest of the block is zeros. Such a file is only read. Its number is given by who opened it (the runtime: a
// descriptor).
#pragma once

#include <cstdint>

namespace ebb {

struct FilePlace {
  static constexpr std::int32_t kNoFile = -1;

  std::int32_t file = kNoFile;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool read_only = false;  // the program may not write to the block

  constexpr bool valid() const { return file != kNoFile; }
};

}  // namespace ebb
