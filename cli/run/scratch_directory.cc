// See scratch_directory.h.
#include "run/scratch_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
    if (::mkdtemp(path_.data()) == nullptr) continue;
    start_guard();
    return;
  }
  throw Error(Status::kIoError, fmt::format("cannot create a private directory in /tmp: {}; set TMPDIR to a directory "
                                            "that can be written",
                                            std::strerror(errno)));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  alive_.reset();
  if (guard_ > 0) ::waitpid(guard_, nullptr, 0);
}

// Where it cannot be started the directory stays behind if this process is killed, and nothing else is different.
void ScratchDirectory::start_guard() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  FileDescriptor waiting(ends[0]);
  alive_ = FileDescriptor(ends[1]);
  guard_ = ::fork();
  if (guard_ != 0) return;
  // Nothing that anybody waits for stays open here, and no signal for `ebb` or its terminal is meant for it.
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::dup2(waiting.get(), 0);
  ::close_range(kGuardedDirectory, ~0u, 0);
  [[maybe_unused]] const int shown = ::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  ::prctl(PR_SET_NAME, kGuardName);
  char end = 0;
  while (::read(0, &end, 1) < 0 && errno == EINTR) {
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ::_exit(0);
}

}  // namespace ebb::cli
