// The driver's own changes to the mappings of managed memory, past libebb_calls.so (src/calls), which refuses a program
// what only the driver may do. Stateless; any thread; allowed while a fault is served.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

// Newer than the headers of Debian 12 and Ubuntu 22.04.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

namespace ebb::own {

inline void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
}
inline int munmap(void* data, std::size_t bytes) { return static_cast<int>(::syscall(SYS_munmap, data, bytes)); }
inline void* mremap(void* data, std::size_t bytes, std::size_t new_bytes, int flags, void* to) {
  return reinterpret_cast<void*>(::syscall(SYS_mremap, data, bytes, new_bytes, flags, to));
}
inline int madvise(void* data, std::size_t bytes, int advice) {
  return static_cast<int>(::syscall(SYS_madvise, data, bytes, advice));
}
inline int mprotect(void* data, std::size_t bytes, int protection) {
  return static_cast<int>(::syscall(SYS_mprotect, data, bytes, protection));
}

}  // namespace ebb::own
