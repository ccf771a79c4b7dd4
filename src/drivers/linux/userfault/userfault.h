// Userfault: a userfaultfd, opened with the most privilege that this process can have, and what is asked of it where
// nobody else changes mappings or where it does not matter (userfault_calls.h has the single attempts).
//
// The three rungs: full - touches by the kernel on behalf of the program (read(2) into a tensor) wait like any other;
// user mode only - such a touch of an absent block fails with EFAULT; none - not to be had here.
// No function allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivers/linux/userfault/userfault_calls.h"
#include "ebb/status.h"

namespace ebb {

class Userfault {
 public:
  enum class Rung : std::uint8_t { kFull, kUserModeOnly, kNone };

  // kUnsupported: no userfaultfd at all, with errno. Enables what there is of move and poison.
  static Status open(Userfault& userfault);
  void close() { fd_.reset(); }

  int fd() const { return fd_.get(); }
  Rung rung() const { return rung_; }
  bool can_move() const { return offered_.move; }
  bool can_poison() const { return offered_.poison; }

  Status watch(void* address, std::size_t bytes);
  // Fills absent pages with a copy, or with zeros; pages that are present stay as they are. kNoMemory: not all of them.
  Status copy(void* to, const void* from, std::size_t bytes);
  Status zero(void* to, std::size_t bytes);
  // Makes touches of absent pages fail. kUnsupported: not of all of them.
  Status poison(void* address, std::size_t bytes);
  void wake(void* address, std::size_t bytes) { userfault::wake(fd(), address, bytes); }

 private:
  FileDescriptor fd_;
  Rung rung_ = Rung::kNone;
  userfault::Offered offered_;
};

}  // namespace ebb
