// See system_files.h. Kernel files report a size of zero, so they are read until they end.
#include "drivers/linux/system/system_files.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ebb {

std::optional<std::string> read_text(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

std::optional<std::string> read_line(const std::string& path) {
  auto text = read_text(path);
  if (text) text->erase(text->find_last_not_of(" \t\n") + 1);
  return text;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string explain(int error) {
  const std::string what = std::strerror(error);
  switch (error) {
    case EMFILE: return what + "; lift ulimit -n";
    case EFBIG: return what + "; lift ulimit -f";
    case EAGAIN: return what + "; lift ulimit -u";
    default: return what;
  }
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FileDescriptor open_bell() { return FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void ring(int bell) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto put = ::write(bell, &one, sizeof one);
}

void silence(int bell) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(bell, &count, sizeof count);
}

}  // namespace ebb
