// Userfault: a userfaultfd, opened with the most privilege that this process can have, and its ioctls.
//
// The three rungs: full - touches by the kernel on behalf of the program (read(2) into a tensor) wait like any other;
// user mode only - such a touch of an absent block fails with EFAULT; none - not to be had here.
// No function allocates. The header of Debian 12 ends before UFFDIO_MOVE, so its numbers are our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ebb/status.h"

namespace ebb {

class Userfault {
 public:
  enum class Rung : std::uint8_t { kFull, kUserModeOnly, kNone };

  Userfault() = default;
  Userfault(Userfault&& other) noexcept { *this = std::move(other); }
  Userfault& operator=(Userfault&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(rung_, other.rung_);
    std::swap(features_, other.features_);
    return *this;
  }
  ~Userfault();

  // kUnsupported: no userfaultfd at all. Enables what there is of move and poison.
  static Status open(Userfault& userfault);

  int fd() const { return fd_; }
  Rung rung() const { return rung_; }
  bool can_move() const;
  bool can_poison() const;

  Status watch(void* address, std::size_t bytes);
  // Moves whole pages and wakes waiters at `to`. kBusy: some are pinned, or a page table cannot be had, and all of them
  // are back where they were.
  Status move(void* to, void* from, std::size_t bytes);
  // Fills absent pages with a copy, or with zeros; pages that are present stay as they are.
  Status copy(void* to, const void* from, std::size_t bytes);
  Status zero(void* to, std::size_t bytes);
  void wake(void* address, std::size_t bytes);
  Status poison(void* address, std::size_t bytes);

 private:
  Status connect(std::uint64_t features);

  int fd_ = -1;
  Rung rung_ = Rung::kNone;
  std::uint64_t features_ = 0;
};

}  // namespace ebb
