// Who maps files for the program, if a runtime does. Set by the runtime, read by mmap() and munmap() without a lock.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace ebb::calls {

// Null: the kernel is to map it.
void* map_file(int fd, std::size_t bytes, int protection, int flags, off_t offset);
// False: no file is mapped there by a runtime.
bool unmap_file(void* data, std::size_t bytes);
// Of MappedKind: what is there; kMappedNoFile where no runtime maps files.
unsigned mapped_kinds(const void* data, std::size_t bytes);
// Memory with files in it becomes what the files have, all else zeros. 0, or an errno.
int discard_mapped(void* data, std::size_t bytes);

}  // namespace ebb::calls
