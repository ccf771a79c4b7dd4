// See floats.h. Mapped files are unlinked at once, so nothing is left of them however the process ends.
#include "floats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ebb::bench {
namespace {

void* map_memory(std::size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  ::madvise(data, bytes, MADV_HUGEPAGE);  // where the machine has them
  return data;
}

void* map_file(const std::string& directory, std::size_t bytes, bool sequential) {
  std::string name = directory + "/ebb-streams-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) throw std::system_error(errno, std::generic_category(), directory);
  ::unlink(name.c_str());
  const bool sized = ::ftruncate(file, static_cast<off_t>(bytes)) == 0;
  void* const data = sized ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = errno;
  ::close(file);
  if (data == MAP_FAILED) throw std::system_error(error, std::generic_category(), directory);
  if (sequential) ::madvise(data, bytes, MADV_SEQUENTIAL);
  return data;
}

void* make(const Source& source, std::size_t bytes) {
  switch (source.kind) {
    case Kind::kManaged: return source.runtime->allocate(bytes);
    case Kind::kMemory: return map_memory(bytes);
    case Kind::kMapped: return map_file(source.directory, bytes, false);
    case Kind::kMappedSequential: return map_file(source.directory, bytes, true);
  }
  return nullptr;
}

}  // namespace

Floats::Floats(const Source& source, std::size_t count)
    : source_(source), count_(count), data_(static_cast<float*>(make(source, count * sizeof(float)))) {}

Floats::~Floats() {
  if (source_.kind == Kind::kManaged) {
    source_.runtime->deallocate(data_);
  } else {
    ::munmap(data_, count_ * sizeof(float));
  }
}

}  // namespace ebb::bench
