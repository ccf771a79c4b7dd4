// See scratch_directory.h.
#include "run/scratch_directory.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ebb/status.h"

namespace ebb::cli {

ScratchDirectory::ScratchDirectory() {
  const char* chosen = std::getenv("TMPDIR");
  for (const char* parent : {chosen, "/tmp"}) {
    if (parent == nullptr || *parent == '\0') continue;
    // Absolute, because the program may change its working directory before it opens what we name to it.
    std::error_code ignored;
    path_ = std::filesystem::absolute(parent, ignored).string() + "/ebb-XXXXXX";
    if (::mkdtemp(path_.data()) != nullptr) return;
  }
  throw Error(Status::kIoError, fmt::format("cannot create a private directory in /tmp: {}; set TMPDIR to a directory "
                                            "that can be written",
                                            std::strerror(errno)));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ebb::cli
