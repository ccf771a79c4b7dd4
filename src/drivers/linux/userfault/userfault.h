// Userfault: a userfaultfd, and what is asked of it. Each call makes one attempt and says the kernel's error, so that
// who shares the memory with others can let go of its locks before it tries again; those named *_all repeat it where
// nobody else changes mappings, or where it does not matter.
//
// The three rungs: full - touches by the kernel on behalf of the program (read(2) into a tensor) wait like any other;
// user mode only - such a touch of an absent block fails with EFAULT; none - not to be had here.
// Any thread; no function allocates, waits for an event or takes a lock. Move-only owner of the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"

struct uffd_msg;

namespace ebb {

class Userfault {
 public:
  enum class Rung : std::uint8_t { kFull, kUserModeOnly, kNone };
  struct Wanted {
    bool user_mode_only = false;
    bool events = false;       // remap, unmap and remove of watched ranges are told
    bool fork_events = false;  // and fork; takes CAP_SYS_PTRACE
  };
  struct Moved {
    std::size_t bytes = 0;  // from the beginning
    int error = 0;          // of what follows; EAGAIN also when there is simply more to do
  };
  // Pages that are absent at `from` stay absent at `to`, and count as moved; or end the move with ENOENT.
  enum class Holes : bool { kRefused, kAllowed };

  Userfault() = default;
  // That of a forked child, as an event of its parent's tells it.
  explicit Userfault(int fd);

  // 0, or the errno. Enables what there is of move, write protection and poison besides.
  static int open(const Wanted& wanted, Userfault& userfault);
  // With as much privilege as can be had, without events. kUnsupported: no userfaultfd at all, with errno.
  static Status open(Userfault& userfault);
  void close() { fd_.reset(); }

  int fd() const { return fd_.get(); }
  Rung rung() const { return rung_; }
  bool can_move() const { return can_move_; }        // Linux 6.8
  bool can_protect() const { return can_protect_; }  // writes of present pages can be made to wait
  bool can_poison() const { return can_poison_; }    // Linux 6.6

  // The next message, if there is one.
  bool read(uffd_msg& message) const;
  // Whether every event has been read, and who caused it has gone on. While that is not so, all of the calls below but
  // watch, unwatch and wake answer EAGAIN.
  bool quiet() const;

  // Touches of absent pages wait from now on; `writes`: protect() may be used too. 0, or the errno.
  int watch(const void* address, std::size_t bytes, bool writes = false) const;
  int unwatch(const void* address, std::size_t bytes) const;
  Moved move(void* to, const void* from, std::size_t bytes, Holes holes = Holes::kAllowed) const;
  // Fills absent pages. EEXIST: the first of what is left is present.
  Moved copy(void* to, const void* from, std::size_t bytes) const;
  Moved zero(void* to, std::size_t bytes) const;
  // Makes touches of absent pages fail with SIGBUS. EEXIST: the first of what is left is present, or fails already.
  Moved poison(const void* address, std::size_t bytes) const;
  // Makes writes of present pages wait, or lets them go on. 0, or the errno.
  int protect(const void* address, std::size_t bytes, bool on) const;
  void wake(const void* address, std::size_t bytes) const;

  // Pages that are present stay as they are. kNoMemory: not all of them. kUnsupported: there is no poison, or not all.
  Status copy_all(void* to, const void* from, std::size_t bytes) const;
  Status zero_all(void* to, std::size_t bytes) const;
  Status poison_all(void* address, std::size_t bytes) const;

 private:
  FileDescriptor fd_;
  Rung rung_ = Rung::kNone;
  bool can_move_ = false;
  bool can_protect_ = false;
  bool can_poison_ = false;
};

}  // namespace ebb
