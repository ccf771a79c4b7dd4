// See userfault.h.
#include "drivers/linux/userfault/userfault.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "drivers/linux/process/reservation.h"
#include "drivers/linux/userfault/patience.h"

namespace ebb {
namespace {

constexpr int kTriesMax = 500'000;  // ten seconds and more: for what is over in a moment

// From the kernel's interface, Linux 6.6 and 6.8: the header of Debian 12 is older.
constexpr std::uint64_t kFeaturePoison = 1ull << 14;
constexpr std::uint64_t kFeatureMove = 1ull << 16;
constexpr std::uint64_t kMoveAllowHoles = 1ull << 1;
constexpr int kUserModeOnly = 1;
struct MoveArgument {
  std::uint64_t to, from, bytes, mode;
  std::int64_t moved;
};
struct PoisonArgument {
  std::uint64_t start, bytes, mode;
  std::int64_t updated;
};
constexpr unsigned long kIoctlMove = _IOWR(UFFDIO, 0x05, MoveArgument);
constexpr unsigned long kIoctlPoison = _IOWR(UFFDIO, 0x08, PoisonArgument);
constexpr unsigned long kIoctlNew = _IO(0xAA, 0x00);  // on /dev/userfaultfd

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

int open_descriptor(bool user_mode_only) {
  const int flags = O_CLOEXEC | O_NONBLOCK | (user_mode_only ? kUserModeOnly : 0);
  const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, flags));
  if (fd >= 0 || user_mode_only) return fd;
  const int error = errno;
  const FileDescriptor device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device.valid()) return ::ioctl(device.get(), kIoctlNew, O_CLOEXEC | O_NONBLOCK);
  errno = error;
  return -1;
}

int handshake(bool user_mode_only, std::uint64_t features, FileDescriptor& fd, std::uint64_t& kernel_has) {
  fd.reset();  // first: it may be the last one that can be had
  fd = FileDescriptor(open_descriptor(user_mode_only));
  if (!fd.valid()) return errno;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0) return errno;
  kernel_has = api.features;
  return 0;
}

Userfault::Moved result_of(int failed, std::int64_t done, std::size_t bytes) {
  if (failed == 0) return {bytes, 0};
  const int error = errno;
  return {done > 0 ? static_cast<std::size_t>(done) : 0, error};
}

// Repeats a call until all bytes are done; pages that it finds present (EEXIST) are passed over.
template <typename Call>
Status repeat(std::size_t bytes, Call call) {
  Patience patience(kTriesMax);
  for (std::size_t at = 0; at < bytes;) {
    const Userfault::Moved done = call(at);
    at += done.bytes;
    if (done.error == 0 || done.bytes > 0) continue;
    if (done.error == EEXIST) {
      at += kPageBytes;
    } else if (done.error != EAGAIN || !patience.wait()) {
      return Status::kNoMemory;
    }
  }
  return Status::kOk;
}

std::byte* at_offset(void* address, std::size_t offset) { return static_cast<std::byte*>(address) + offset; }

}  // namespace

Userfault::Userfault(int fd) : fd_(fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

int Userfault::open(const Wanted& wanted, Userfault& userfault) {
  // The handshake can be done once: what the kernel offers is asked of one descriptor and enabled on another.
  Userfault opened;
  std::uint64_t kernel_has = 0;
  if (const int error = handshake(wanted.user_mode_only, 0, opened.fd_, kernel_has); error != 0) return error;
  opened.rung_ = wanted.user_mode_only ? Rung::kUserModeOnly : Rung::kFull;
  opened.can_move_ = (kernel_has & kFeatureMove) != 0;
  opened.can_protect_ = (kernel_has & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
  opened.can_poison_ = (kernel_has & kFeaturePoison) != 0;
  std::uint64_t features = kernel_has & (kFeatureMove | kFeaturePoison | UFFD_FEATURE_PAGEFAULT_FLAG_WP);
  if (wanted.events) features |= UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE;
  if (wanted.fork_events) features |= UFFD_FEATURE_EVENT_FORK;
  if (const int error = handshake(wanted.user_mode_only, features, opened.fd_, kernel_has); error != 0) return error;
  userfault = std::move(opened);
  return 0;
}

Status Userfault::open(Userfault& userfault) {
  int error = open({.user_mode_only = false}, userfault);
  if (error != 0) error = open({.user_mode_only = true}, userfault);
  errno = error;
  return error == 0 ? Status::kOk : Status::kUnsupported;
}

bool Userfault::read(uffd_msg& message) const {
  return ::read(fd(), &message, sizeof message) == static_cast<ssize_t>(sizeof message);
}

// Nothing is asked for; whether anything could be is what the kernel looks at first.
bool Userfault::quiet() const {
  uffdio_zeropage argument{};
  return ::ioctl(fd(), UFFDIO_ZEROPAGE, &argument) == 0 || errno != EAGAIN;
}

int Userfault::watch(const void* address, std::size_t bytes, bool writes) const {
  uffdio_register argument{};
  argument.range = {address_of(address), bytes};
  argument.mode = UFFDIO_REGISTER_MODE_MISSING | (writes ? UFFDIO_REGISTER_MODE_WP : 0);
  return ::ioctl(fd(), UFFDIO_REGISTER, &argument) == 0 ? 0 : errno;
}

int Userfault::unwatch(const void* address, std::size_t bytes) const {
  uffdio_range range{address_of(address), bytes};
  return ::ioctl(fd(), UFFDIO_UNREGISTER, &range) == 0 ? 0 : errno;
}

Userfault::Moved Userfault::move(void* to, const void* from, std::size_t bytes, Holes holes) const {
  MoveArgument argument{address_of(to), address_of(from), bytes, holes == Holes::kAllowed ? kMoveAllowHoles : 0, 0};
  return result_of(::ioctl(fd(), kIoctlMove, &argument), argument.moved, bytes);
}

Userfault::Moved Userfault::copy(void* to, const void* from, std::size_t bytes) const {
  uffdio_copy argument{};
  argument.dst = address_of(to);
  argument.src = address_of(from);
  argument.len = bytes;
  return result_of(::ioctl(fd(), UFFDIO_COPY, &argument), argument.copy, bytes);
}

Userfault::Moved Userfault::zero(void* to, std::size_t bytes) const {
  uffdio_zeropage argument{};
  argument.range = {address_of(to), bytes};
  return result_of(::ioctl(fd(), UFFDIO_ZEROPAGE, &argument), argument.zeropage, bytes);
}

int Userfault::protect(const void* address, std::size_t bytes, bool on) const {
  uffdio_writeprotect argument{};
  argument.range = {address_of(address), bytes};
  argument.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  return ::ioctl(fd(), UFFDIO_WRITEPROTECT, &argument) == 0 ? 0 : errno;
}

Userfault::Moved Userfault::poison(const void* address, std::size_t bytes) const {
  PoisonArgument argument{address_of(address), bytes, 0, 0};
  return result_of(::ioctl(fd(), kIoctlPoison, &argument), argument.updated, bytes);
}

void Userfault::wake(const void* address, std::size_t bytes) const {
  uffdio_range range{address_of(address), bytes};
  ::ioctl(fd(), UFFDIO_WAKE, &range);
}

Status Userfault::copy_all(void* to, const void* from, std::size_t bytes) const {
  return repeat(bytes, [&](std::size_t at) {
    return copy(at_offset(to, at), static_cast<const std::byte*>(from) + at, bytes - at);
  });
}

Status Userfault::zero_all(void* to, std::size_t bytes) const {
  return repeat(bytes, [&](std::size_t at) { return zero(at_offset(to, at), bytes - at); });
}

Status Userfault::poison_all(void* address, std::size_t bytes) const {
  if (!can_poison()) return Status::kUnsupported;
  const Status status = repeat(bytes, [&](std::size_t at) { return poison(at_offset(address, at), bytes - at); });
  return status == Status::kOk ? Status::kOk : Status::kUnsupported;
}

}  // namespace ebb
