// What the flash tier gets of a directory. Whether it may live there is decided by opening it exactly as the runtime
// does, so `ebb run`, `ebb doctor` and the managed program never disagree. Leaves nothing behind. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::cli {

struct FlashFacts {
  std::string directory;    // absolute where it exists
  std::string file_system;  // "ext4", "nfs", …
  bool on_network = false;
  bool ram_disk = false;
  bool unnamed_files = false;  // O_TMPFILE
  bool direct_io = false;      // O_DIRECT
  std::uint64_t free_bytes = 0;
  std::string problem;  // why the flash tier cannot live here, and what to do; empty when it can
};

FlashFacts inspect_flash(const std::string& directory);

}  // namespace ebb::cli
