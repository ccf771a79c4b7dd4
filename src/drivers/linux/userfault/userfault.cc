// See userfault.h.
#include "drivers/linux/userfault/userfault.h"

#include <unistd.h>

#include <cerrno>

namespace ebb {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr int kTries = 500'000;  // of 20 us: for what is over in a moment
constexpr int kPauseUs = 20;

// Repeats a call until all bytes are done; pages that it finds present (EEXIST) are passed over.
template <typename Call>
Status repeat(std::size_t bytes, Call call) {
  int tries = 0;
  for (std::size_t at = 0; at < bytes;) {
    const userfault::Moved done = call(at);
    at += done.bytes;
    if (done.error == 0 || done.bytes > 0) continue;
    if (done.error == EEXIST) {
      at += kPageBytes;
    } else if (done.error == EAGAIN && ++tries < kTries) {
      ::usleep(kPauseUs);
    } else {
      return Status::kNoMemory;
    }
  }
  return Status::kOk;
}

std::byte* at_offset(void* address, std::size_t offset) { return static_cast<std::byte*>(address) + offset; }

}  // namespace

Status Userfault::open(Userfault& userfault) {
  for (const bool user_mode_only : {false, true}) {
    Userfault opened;
    userfault::Wanted wanted;
    wanted.user_mode_only = user_mode_only;
    const int error = userfault::open(wanted, opened.fd_, opened.offered_);
    errno = error;
    if (error != 0) continue;
    opened.rung_ = user_mode_only ? Rung::kUserModeOnly : Rung::kFull;
    userfault = std::move(opened);
    return Status::kOk;
  }
  return Status::kUnsupported;
}

Status Userfault::watch(void* address, std::size_t bytes) {
  return userfault::watch(fd(), address, bytes) == 0 ? Status::kOk : Status::kUnsupported;
}

Status Userfault::copy(void* to, const void* from, std::size_t bytes) {
  return repeat(bytes, [&](std::size_t at) {
    return userfault::copy(fd(), at_offset(to, at), static_cast<const std::byte*>(from) + at, bytes - at);
  });
}

Status Userfault::zero(void* to, std::size_t bytes) {
  return repeat(bytes, [&](std::size_t at) { return userfault::zero(fd(), at_offset(to, at), bytes - at); });
}

Status Userfault::poison(void* address, std::size_t bytes) {
  if (!can_poison()) return Status::kUnsupported;
  const Status status =
      repeat(bytes, [&](std::size_t at) { return userfault::poison(fd(), at_offset(address, at), bytes - at); });
  return status == Status::kOk ? Status::kOk : Status::kUnsupported;
}

}  // namespace ebb
