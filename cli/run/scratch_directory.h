// ScratchDirectory: a fresh private directory (mode 0700) for one run, removed with all that is in it by its
// destructor. Holds the statistics page and the claim file; it never holds data of the program. Main thread.
#pragma once

#include <string>

namespace ebb::cli {

class ScratchDirectory {
 public:
  // In $TMPDIR, else in /tmp. Throws Error with the reason.
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ebb::cli
