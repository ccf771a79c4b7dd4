// ScratchDirectory: a fresh private directory (mode 0700) for one run, removed with all that is in it by its
// destructor; and should this process be killed, by a small process that does nothing but wait for its end. Holds the
// statistics pages, the socket and the claim files; it never holds data of the program. Main thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "drivers/linux/system/system_files.h"

namespace ebb::cli {

class ScratchDirectory {
 public:
  // By these `ebb top` finds the directories of its user's runs, wherever they are: what that process is called, and
  // the descriptor by which it holds its directory open.
  static constexpr const char* kGuardName = "ebb-guard";
  static constexpr int kGuardedDirectory = 1;

  // In $TMPDIR, else in /tmp. Throws Error with the reason.
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  void start_guard();

  std::string path_;
  FileDescriptor alive_;  // closed when this process ends, however it does
  pid_t guard_ = -1;
};

}  // namespace ebb::cli
