// Memory that the program shares with other processes (of /dev/shm, or of memfd_create), as far as this process has it
// mapped: how much it is. It is in no budget, because nobody can tell here who else has it. mmap() tells what it has
// mapped, munmap() what it is about to unmap. Any thread, without a lock; a forked child goes on with what it has
// inherited.
#pragma once

#include <cstddef>

namespace ebb::calls {

void shared_memory_mapped(const void* data, std::size_t bytes, int flags, int fd);
void shared_memory_unmapped(const void* data);

}  // namespace ebb::calls
