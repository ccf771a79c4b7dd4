// See redirection.h.
#include "calibrate/redirection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"

namespace ebb::cli {

Redirection::Redirection(const std::string& file, What what) {
  const FileDescriptor target(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!target.valid()) throw Error(Status::kIoError, fmt::format("cannot write '{}': {}", file, std::strerror(errno)));
  std::fflush(stdout);
  std::fflush(stderr);
  if (::isatty(STDERR_FILENO) == 1) terminal_ = ::dup(STDERR_FILENO);
  output_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::dup2(target.get(), STDOUT_FILENO);
  if (what == What::kOutput) return;
  errors_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::dup2(target.get(), STDERR_FILENO);
}

Redirection::~Redirection() {
  const auto give_back = [](int former, int descriptor) {
    if (former < 0) return;
    ::dup2(former, descriptor);
    ::close(former);
  };
  give_back(output_, STDOUT_FILENO);
  give_back(errors_, STDERR_FILENO);
  if (terminal_ >= 0) ::close(terminal_);
}

std::string tail_of(const std::string& file, std::size_t lines_max) {
  const auto text = read_line(file);
  if (!text || text->empty()) return "";
  const std::vector<std::string> lines = split(*text, '\n');
  std::string tail;
  for (std::size_t i = lines.size() > lines_max ? lines.size() - lines_max : 0; i < lines.size(); ++i) {
    tail += "  " + lines[i] + "\n";
  }
  return tail;
}

}  // namespace ebb::cli
