// See userfault.h.
#include "drivers/linux/userfault.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace ebb {
namespace {

// From the kernel's interface, Linux 6.6 and 6.8.
constexpr std::uint64_t kFeaturePoison = 1ull << 14;
constexpr std::uint64_t kFeatureMove = 1ull << 16;
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
// The kernel answers EAGAIN while another thread changes mappings; it never takes long.
constexpr int kRetriesMax = 1'000'000;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

struct Opened {
  int fd;
  Userfault::Rung rung;
};

Opened open_best() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  if (const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, kFlags)); fd >= 0) {
    return {fd, Userfault::Rung::kFull};
  }
  if (const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); device >= 0) {
    const int fd = ::ioctl(device, kIoctlNew, kFlags);
    ::close(device);
    if (fd >= 0) return {fd, Userfault::Rung::kFull};
  }
  if (const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, kFlags | kUserModeOnly)); fd >= 0) {
    return {fd, Userfault::Rung::kUserModeOnly};
  }
  return {-1, Userfault::Rung::kNone};
}

}  // namespace

Userfault::~Userfault() {
  if (fd_ >= 0) ::close(fd_);
}

Status Userfault::connect(std::uint64_t features) {
  const Opened opened = open_best();
  if (opened.fd < 0) return Status::kUnsupported;
  if (fd_ >= 0) ::close(fd_);
  fd_ = opened.fd;
  rung_ = opened.rung;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (::ioctl(fd_, UFFDIO_API, &api) != 0) return Status::kUnsupported;
  features_ = api.features;
  return Status::kOk;
}

Status Userfault::open(Userfault& userfault) {
  Userfault probe;
  if (const Status status = probe.connect(0); status != Status::kOk) return status;
  Userfault opened;
  // The handshake can be done once, so what the kernel offers is asked of one and enabled on another.
  const std::uint64_t wanted = probe.features_ & (kFeatureMove | kFeaturePoison);
  if (const Status status = opened.connect(wanted); status != Status::kOk) return status;
  opened.features_ = wanted;
  userfault = std::move(opened);
  return Status::kOk;
}

bool Userfault::can_move() const { return (features_ & kFeatureMove) != 0; }
bool Userfault::can_poison() const { return (features_ & kFeaturePoison) != 0; }

Status Userfault::watch(void* address, std::size_t bytes) {
  uffdio_register argument{};
  argument.range = {address_of(address), bytes};
  argument.mode = UFFDIO_REGISTER_MODE_MISSING;
  return ::ioctl(fd_, UFFDIO_REGISTER, &argument) == 0 ? Status::kOk : Status::kUnsupported;
}

Status Userfault::move(void* to, void* from, std::size_t bytes) {
  std::size_t done = 0;
  for (int tries = 0; done < bytes; ++tries) {
    EBB_CHECK_LT(tries, kRetriesMax);
    MoveArgument argument{address_of(to) + done, address_of(from) + done, bytes - done, 0, 0};
    if (::ioctl(fd_, kIoctlMove, &argument) == 0) return Status::kOk;
    const int error = errno;
    if (argument.moved > 0) done += static_cast<std::size_t>(argument.moved);
    if (error == EAGAIN) {
      ::sched_yield();
    } else if (error == EEXIST) {
      // Marks of poison: the block's content was lost and freed, and something new comes in its place.
      ::madvise(static_cast<char*>(to) + done, bytes - done, MADV_DONTNEED);
    } else if (error == EBUSY || error == ENOMEM) {  // pages in use, or no memory for a page table
      if (done > 0) EBB_CHECK(move(from, to, done) == Status::kOk);
      return Status::kBusy;
    } else {
      EBB_CHECK_EQ(error, 0);
    }
  }
  return Status::kOk;
}

Status Userfault::copy(void* to, const void* from, std::size_t bytes) {
  std::size_t done = 0;
  for (int tries = 0; done < bytes; ++tries) {
    EBB_CHECK_LT(tries, kRetriesMax);
    uffdio_copy argument{};
    argument.dst = address_of(to) + done;
    argument.src = address_of(from) + done;
    argument.len = bytes - done;
    if (::ioctl(fd_, UFFDIO_COPY, &argument) == 0) return Status::kOk;
    if (argument.copy > 0) done += static_cast<std::size_t>(argument.copy);
    if (errno == EEXIST) {
      done += 4096;
    } else if (errno != EAGAIN) {
      return Status::kNoMemory;
    }
  }
  return Status::kOk;
}

Status Userfault::zero(void* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += 4096) {
    uffdio_zeropage argument{};
    argument.range = {address_of(to) + done, 4096};
    for (int tries = 0; ::ioctl(fd_, UFFDIO_ZEROPAGE, &argument) != 0 && errno == EAGAIN; ++tries) {
      EBB_CHECK_LT(tries, kRetriesMax);
    }
  }
  return Status::kOk;
}

void Userfault::wake(void* address, std::size_t bytes) {
  uffdio_range range{address_of(address), bytes};
  ::ioctl(fd_, UFFDIO_WAKE, &range);
}

Status Userfault::poison(void* address, std::size_t bytes) {
  PoisonArgument argument{address_of(address), bytes, 0, 0};
  for (int tries = 0; ::ioctl(fd_, kIoctlPoison, &argument) != 0; ++tries) {
    if (errno == EEXIST) return Status::kOk;
    if (errno != EAGAIN || tries >= kRetriesMax) return Status::kUnsupported;
  }
  return Status::kOk;
}

}  // namespace ebb
