// Thin calls on a userfaultfd for memory that other code may change at any moment: each makes one attempt, or repeats
// only what cannot fail for the state of the world, and says the kernel's error, so that the caller can let go of its
// locks before it tries again. Stateless, any thread; none allocates, blocks on an event or takes a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivers/linux/system/system_files.h"

namespace ebb::userfault {

struct Wanted {
  bool user_mode_only = false;  // touches by the kernel on behalf of the program fail with EFAULT
  bool events = false;          // remap, unmap and remove of watched ranges are told
  bool fork_events = false;     // and fork; takes CAP_SYS_PTRACE
};

struct Offered {
  bool move = false;     // Linux 6.8
  bool protect = false;  // writes of present pages can be made to wait
  bool poison = false;   // Linux 6.6
};
// 0, or the errno. Features besides the wanted ones: what the kernel has of those in `offered`.
int open(const Wanted& wanted, FileDescriptor& fd, Offered& offered);

// Touches of absent pages wait from now on; `writes`: protect() may be used too.
int watch(int fd, const void* address, std::size_t bytes, bool writes = false);
int unwatch(int fd, const void* address, std::size_t bytes);

struct Moved {
  std::size_t bytes = 0;  // from the beginning
  int error = 0;          // of what follows; EAGAIN also when there is simply more to do
};
// Pages that are absent at `from` stay absent at `to`, and count as moved; or end the move with ENOENT.
enum class Holes : bool { kRefused, kAllowed };
Moved move(int fd, void* to, const void* from, std::size_t bytes, Holes holes = Holes::kAllowed);
// Fills absent pages. EEXIST: the first of what is left is present.
Moved copy(int fd, void* to, const void* from, std::size_t bytes);
Moved zero(int fd, void* to, std::size_t bytes);
// Makes writes of present pages wait, or lets them go on.
int protect(int fd, const void* address, std::size_t bytes, bool on);
// Makes touches of absent pages fail with SIGBUS. EEXIST: the first of what is left is present, or fails already.
Moved poison(int fd, const void* address, std::size_t bytes);
void wake(int fd, const void* address, std::size_t bytes);
// Whether every event has been read, and who caused it has gone on. While that is not so, all of the above but watch,
// unwatch and wake answer EAGAIN.
bool quiet(int fd);

}  // namespace ebb::userfault
