// Floats: an array of a benchmark's program, in memory of one of the kinds that are compared. The program's code,
// threads and compiler flags are the same over each. Owned by the program; made and destroyed by the main thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/runtime.h"

namespace ebb::bench {

using Bytes = std::span<const std::byte>;

enum class Kind {
  kManaged,           // of the runtime
  kMemory,            // the process's own, on huge pages: what one has with memory for everything
  kMapped,            // a file that is mapped, shared: the kernel pages
  kMappedSequential,  // the same, and the kernel is told that it is read from front to back
};

struct Source {
  std::shared_ptr<Runtime> runtime;
  Kind kind = Kind::kManaged;
  std::string directory;  // of the files
};

class Floats {
 public:
  // Throws std::bad_alloc or std::system_error where there is no such memory.
  Floats(const Source& source, std::size_t count);
  ~Floats();
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data() const { return data_; }
  std::size_t count() const { return count_; }
  Bytes bytes() const { return std::as_bytes(std::span(data_, count_)); }

 private:
  Source source_;
  std::size_t count_;
  float* data_;
};

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace ebb::bench
