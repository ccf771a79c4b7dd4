// ByteSink: a file that is written from front to back and is there under its name only when it is complete. Until
// then it is a temporary file beside it, so a full disk, a crash or an error leaves what was there before untouched.
//
// Compressed as the name says: .gz, .zst, or not. "-" is standard output, and what exists and is no regular file (a
// pipe, a device) is written to directly. Owned by one writer; one thread. Errors are thrown as Error(kIoError), and
// then nothing more may be written.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ebb {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(std::string_view bytes) = 0;
  // All is written: make it last, and give it its name. Without this call the destructor removes the temporary file.
  virtual void finish() = 0;
};

std::unique_ptr<ByteSink> open_sink(const std::string& path);

}  // namespace ebb
