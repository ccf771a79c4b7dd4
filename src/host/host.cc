// The runtime of a program that has none: opened by the settings of `ebb run`, as a process of its job; where there is
// no job, in the one process that claims them.
// Called by libebb_calls inside an mmap() of the program's, once.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ebb/options.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

std::shared_ptr<Runtime>* g_runtime = nullptr;  // leaked on purpose

// Whether the budget is this process's: it is the first to ask, or has asked before an exec.
bool claim(const char* path) {
  const std::string own = std::to_string(::getpid());
  const int made = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) {
    const bool written = ::write(made, own.data(), own.size()) == static_cast<ssize_t>(own.size());
    ::close(made);
    return written;
  }
  const int found = ::open(path, O_RDONLY | O_CLOEXEC);
  if (found < 0) return false;
  char text[32];
  const ssize_t length = ::read(found, text, sizeof text);
  ::close(found);
  return length > 0 && own.compare(0, own.npos, text, static_cast<std::size_t>(length)) == 0;
}

}  // namespace
}  // namespace ebb

extern "C" {

// Null if there is none. What else opens a runtime in this process asks first.
[[gnu::visibility("default")]] std::shared_ptr<ebb::Runtime>* ebb_host_runtime() { return ebb::g_runtime; }

[[gnu::visibility("default")]] void ebb_host_open() {
  const char* const path = std::getenv("EBB_CLAIM");
  if (path == nullptr) return;
  const bool first = ebb::claim(path);
  try {
    ebb::Options options = ebb::options_from_environment();
    if (options.device_memory > 0 || (options.job.empty() && !first)) return;
    if (!first && ::access(options.job.c_str(), F_OK) != 0) return;  // the run has ended
    // A rank that has not imported torch yet, or what a process that has joined has started, is a process of its own.
    options.job_rank = -1;
    if (!first) {
      options.stats_path = options.stats_path.substr(0, options.stats_path.find(".", options.stats_path.rfind('/'))) +
                           ".p" + std::to_string(::getpid());
      options.record.clear();
      options.guide.clear();
    }
    options.map_files = true;
    ebb::g_runtime = new std::shared_ptr<ebb::Runtime>(ebb::Runtime::open(options));
  } catch (const ebb::Error& error) {
    // Unmanaged it would take all the memory that the budget is to save.
    std::fprintf(stderr, "ebb: %s\n", error.what());
    ::_exit(2);
  }
}

}  // extern "C"
