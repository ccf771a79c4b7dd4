// See userfault_calls.h.
#include "drivers/linux/userfault/userfault_calls.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ebb::userfault {
namespace {

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

Moved result_of(int failed, std::int64_t done, std::size_t bytes) {
  if (failed == 0) return {bytes, 0};
  const int error = errno;
  return {done > 0 ? static_cast<std::size_t>(done) : 0, error};
}

}  // namespace

int open(const Wanted& wanted, FileDescriptor& fd, Offered& offered) {
  // The handshake can be done once: what the kernel offers is asked of one descriptor and enabled on another.
  std::uint64_t kernel_has = 0;
  if (const int error = handshake(wanted.user_mode_only, 0, fd, kernel_has); error != 0) return error;
  offered = {(kernel_has & kFeatureMove) != 0, (kernel_has & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0,
             (kernel_has & kFeaturePoison) != 0};
  std::uint64_t features = kernel_has & (kFeatureMove | kFeaturePoison | UFFD_FEATURE_PAGEFAULT_FLAG_WP);
  if (wanted.events) features |= UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE;
  if (wanted.fork_events) features |= UFFD_FEATURE_EVENT_FORK;
  return handshake(wanted.user_mode_only, features, fd, kernel_has);
}

int watch(int fd, const void* address, std::size_t bytes, bool writes) {
  uffdio_register argument{};
  argument.range = {address_of(address), bytes};
  argument.mode = UFFDIO_REGISTER_MODE_MISSING | (writes ? UFFDIO_REGISTER_MODE_WP : 0);
  return ::ioctl(fd, UFFDIO_REGISTER, &argument) == 0 ? 0 : errno;
}

int unwatch(int fd, const void* address, std::size_t bytes) {
  uffdio_range range{address_of(address), bytes};
  return ::ioctl(fd, UFFDIO_UNREGISTER, &range) == 0 ? 0 : errno;
}

Moved move(int fd, void* to, const void* from, std::size_t bytes, Holes holes) {
  MoveArgument argument{address_of(to), address_of(from), bytes, holes == Holes::kAllowed ? kMoveAllowHoles : 0, 0};
  return result_of(::ioctl(fd, kIoctlMove, &argument), argument.moved, bytes);
}

Moved copy(int fd, void* to, const void* from, std::size_t bytes) {
  uffdio_copy argument{};
  argument.dst = address_of(to);
  argument.src = address_of(from);
  argument.len = bytes;
  return result_of(::ioctl(fd, UFFDIO_COPY, &argument), argument.copy, bytes);
}

Moved zero(int fd, void* to, std::size_t bytes) {
  uffdio_zeropage argument{};
  argument.range = {address_of(to), bytes};
  return result_of(::ioctl(fd, UFFDIO_ZEROPAGE, &argument), argument.zeropage, bytes);
}

int protect(int fd, const void* address, std::size_t bytes, bool on) {
  uffdio_writeprotect argument{};
  argument.range = {address_of(address), bytes};
  argument.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  return ::ioctl(fd, UFFDIO_WRITEPROTECT, &argument) == 0 ? 0 : errno;
}

Moved poison(int fd, const void* address, std::size_t bytes) {
  PoisonArgument argument{address_of(address), bytes, 0, 0};
  return result_of(::ioctl(fd, kIoctlPoison, &argument), argument.updated, bytes);
}

void wake(int fd, const void* address, std::size_t bytes) {
  uffdio_range range{address_of(address), bytes};
  ::ioctl(fd, UFFDIO_WAKE, &range);
}

// Nothing is asked for; whether anything could be is what the kernel looks at first.
bool quiet(int fd) {
  uffdio_zeropage argument{};
  return ::ioctl(fd, UFFDIO_ZEROPAGE, &argument) == 0 || errno != EAGAIN;
}

}  // namespace ebb::userfault
