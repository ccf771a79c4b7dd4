// Small helpers: whole text files of the kernel, descriptors, and writing all of a buffer to one; errors in words.
// Stateless; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

// The content of a file of /proc or /sys, or nothing when it cannot be read.
std::optional<std::string> read_text(const std::string& path);

// The same without the white space at its end.
std::optional<std::string> read_line(const std::string& path);

// Writes all of `text`, through short writes and interruptions. False with errno set when the descriptor refuses.
bool write_all(int fd, std::string_view text);

std::vector<std::string> split(std::string_view text, char separator);

// What the system says of an errno, and the limit to lift where it is one: "Too many open files; lift ulimit -n".
std::string explain(int error);

// Owns one file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_;
};

// A bell is an eventfd: readable from ring() until silence(). Neither waits nor allocates; ring() also in a handler.
FileDescriptor open_bell();
void ring(int bell);
void silence(int bell);

}  // namespace ebb
