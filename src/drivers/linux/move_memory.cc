// See move_memory.h.
#include "drivers/linux/move_memory.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace ebb {
namespace {

constexpr int kUnpinTryUs = 20;
constexpr int kUnpinTriesMax = 500'000;  // 10 s or more: a bug, not a delay

}  // namespace

Status MoveMemory::make(std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames,
                        std::unique_ptr<MoveMemory>& memory) {
  std::unique_ptr<MoveMemory> made(new MoveMemory);
  made->block_bytes_ = block_bytes;
  if (const Status status = Userfault::open(made->userfault_); status != Status::kOk) return status;
  if (!made->userfault_.can_move()) return Status::kUnsupported;
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  for (const auto& [range, bytes] :
       {std::pair{&made->space_, block_bytes * blocks}, std::pair{&made->home_, block_bytes * frames},
        std::pair{&made->scratch_, block_bytes}}) {
    if (const Status status = Reservation::make(bytes, kReadWrite, *range); status != Status::kOk) return status;
  }
  ::madvise(made->scratch_.data(), made->scratch_.bytes(), MADV_HUGEPAGE);
  for (const Reservation* range : {&made->space_, &made->home_}) {
    if (const Status status = made->userfault_.watch(range->data(), range->bytes()); status != Status::kOk) {
      return status;
    }
  }
  made->interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made->interrupt_fd_ < 0) return Status::kNoMemory;
  memory = std::move(made);
  return Status::kOk;
}

MoveMemory::~MoveMemory() {
  if (interrupt_fd_ >= 0) ::close(interrupt_fd_);
}

Status MoveMemory::create(FrameIndex frame) {
  const std::lock_guard lock(scratch_mutex_);
  std::byte* const scratch = scratch_.data();
  if (::madvise(scratch, block_bytes_, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) return Status::kNoMemory;
    std::memset(scratch, 0, block_bytes_);  // kernels before 5.14
  }
  move_when_free(home_address(frame), scratch);
  return Status::kOk;
}

void MoveMemory::destroy(FrameIndex frame) { ::madvise(home_address(frame), block_bytes_, MADV_DONTNEED); }

void MoveMemory::attach(FrameIndex frame, BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->attach(home_address(frame), block);
  move_when_free(address(block), home_address(frame));
}

// Of pages that are nobody's but ours. The kernel announces the end of direct I/O before it lets go of the pages, by
// some microseconds, and may be looking at them itself while it reclaims or compacts memory: until then they cannot
// move.
void MoveMemory::move_when_free(std::byte* to, std::byte* from) {
  for (int tries = 0; userfault_.move(to, from, block_bytes_) != Status::kOk; ++tries) {
    EBB_CHECK_LT(tries, kUnpinTriesMax);
    ::usleep(kUnpinTryUs);
  }
}

Status MoveMemory::detach(BlockIndex block, FrameIndex frame) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->detach(block, home_address(frame));
  return userfault_.move(home_address(frame), address(block), block_bytes_);
}

void MoveMemory::wake(BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->wake(block);
  userfault_.wake(address(block), block_bytes_);
}

void MoveMemory::fail(BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block); adopted != nullptr) return adopted->fail(block);
  // Without poison (before 6.6; then there is no MOVE either, but the ioctl may be filtered) the block is unmapped.
  if (userfault_.poison(address(block), block_bytes_) != Status::kOk) {
    ::mmap(address(block), block_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  wake(block);
}

void MoveMemory::forget_failure(BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->forget_failure(block);
  ::madvise(address(block), block_bytes_, MADV_DONTNEED);
}

std::size_t MoveMemory::next(std::span<BlockIndex> blocks) {
  for (;;) {
    AdoptedMemory* const adopted = child_ ? nullptr : adopted_.load(std::memory_order_acquire);
    std::array<pollfd, 4> polled{{{userfault_.fd(), POLLIN, 0},
                                  {interrupt_fd_, POLLIN, 0},
                                  {adopted != nullptr ? adopted->fd() : -1, POLLIN, 0},
                                  {adopted != nullptr ? adopted->stash_fd() : -1, POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), -1) < 0) {
      EBB_CHECK_EQ(errno, EINTR);
      continue;
    }
    if ((polled[1].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(interrupt_fd_, &count, sizeof count);
      return 0;
    }
    std::size_t found = 0;
    uffd_msg message;
    while (found < blocks.size() && ::read(userfault_.fd(), &message, sizeof message) == sizeof message) {
      if (message.event == UFFD_EVENT_PAGEFAULT) blocks[found++] = block_at(message.arg.pagefault.address);
    }
    if (adopted != nullptr) found += adopted->take_faults(blocks.subspan(found));
    if (found > 0) return found;
  }
}

BlockIndex MoveMemory::block_at(std::uint64_t touched) const {
  if (child_ && !space_.holds(touched)) return adopted_.load()->block_at(touched);
  EBB_CHECK(space_.holds(touched));
  const std::uint64_t offset = touched - reinterpret_cast<std::uintptr_t>(space_.data());
  return BlockIndex(static_cast<std::uint32_t>(offset / block_bytes_));
}

void MoveMemory::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto put = ::write(interrupt_fd_, &one, sizeof one);
}

std::string MoveMemory::description() const {
  return userfault_.rung() == Userfault::Rung::kFull
             ? "userfaultfd with UFFDIO_MOVE, full rung"
             : "userfaultfd with UFFDIO_MOVE, user-mode rung: a system call on an absent block fails with EFAULT "
               "(sysctl vm.unprivileged_userfaultfd=1 or CAP_SYS_PTRACE lifts this)";
}

Adoption* MoveMemory::adoption(std::string& reason) {
  if (adopted_owner_ == nullptr && AdoptedMemory::make(block_bytes_, userfault_, adopted_owner_) == Status::kOk) {
    adopted_.store(adopted_owner_.get(), std::memory_order_release);
    interrupt();  // next() waits for one descriptor more
  }
  if (adopted_owner_ == nullptr) reason = "no second userfaultfd can be had here, or no /proc/self/pagemap";
  return adopted_owner_.get();
}

void MoveMemory::before_fork() {
  if (adopted_owner_ != nullptr) adopted_owner_->before_fork();
}

void MoveMemory::after_fork() {
  if (adopted_owner_ != nullptr) adopted_owner_->after_fork();
}

Status MoveMemory::enter_child() {
  // The space of a parent is not inherited. That of a child is, with what it holds: a grandchild goes on from there.
  if (!child_) {
    void* const mapped = ::mmap(space_.data(), space_.bytes(), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != space_.data()) return Status::kNoMemory;
  }
  child_ = true;
  home_.forget();
  scratch_.forget();
  ::close(interrupt_fd_);
  interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Userfault fresh;
  if (const Status status = Userfault::open(fresh); status != Status::kOk) return status;
  userfault_ = std::move(fresh);
  if (adopted_owner_ != nullptr) {
    if (const Status status = adopted_owner_->enter_child(userfault_); status != Status::kOk) return status;
  }
  return userfault_.watch(space_.data(), space_.bytes());
}

void MoveMemory::place(BlockIndex block, std::span<const std::byte> content) {
  EBB_CHECK(child_);
  if (AdoptedMemory* const adopted = adopter_of(block)) {
    if (!adopted->place(userfault_, block, content)) adopted->fail(block);
    return;
  }
  const Status status = content.empty() ? userfault_.zero(address(block), block_bytes_)
                                        : userfault_.copy(address(block), content.data(), content.size());
  if (status != Status::kOk) fail(block);
}

}  // namespace ebb
