// Who maps files for the program, if a runtime does. Set by the runtime, read by mmap() and munmap() without a lock.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace ebb::calls {

// Null: the kernel is to map it.
void* map_file(int fd, std::size_t bytes, int protection, int flags, off_t offset);
// False: no file is mapped there by a runtime.
bool unmap_file(void* data, std::size_t bytes);

}  // namespace ebb::calls
