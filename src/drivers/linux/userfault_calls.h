// Thin calls on a userfaultfd for memory that other code may change at any moment: each makes one attempt, or repeats
// only what cannot fail for the state of the world, and says the kernel's error, so that the caller can let go of its
// locks before it tries again. Stateless, any thread; none allocates, blocks on an event or takes a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivers/linux/system_files.h"

namespace ebb::userfault {

struct Wanted {
  bool user_mode_only = false;  // touches by the kernel on behalf of the program fail with EFAULT
  bool events = false;          // remap, unmap and remove of watched ranges are told
  bool fork_events = false;     // and fork; takes CAP_SYS_PTRACE
};

// 0, or the errno. Features besides the wanted ones: move where the kernel has it (asked with `can_move`).
int open(const Wanted& wanted, FileDescriptor& fd, bool& can_move);

int watch(int fd, const void* address, std::size_t bytes);
int unwatch(int fd, const void* address, std::size_t bytes);

struct Moved {
  std::size_t bytes = 0;  // from the beginning
  int error = 0;          // of what follows; EAGAIN also when there is simply more to do
};
// Pages that are absent at `from` stay absent at `to`, and count as moved.
Moved move(int fd, void* to, const void* from, std::size_t bytes);
// Fills absent pages. EEXIST: the first of what is left is present.
Moved copy(int fd, void* to, const void* from, std::size_t bytes);
Moved zero(int fd, void* to, std::size_t bytes);
void wake(int fd, const void* address, std::size_t bytes);

}  // namespace ebb::userfault
